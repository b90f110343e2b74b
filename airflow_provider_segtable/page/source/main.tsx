// The page of a lake: begins everything.

import { render } from "preact";
import { startPoll } from "./answers.ts";
import { Shell } from "./shell.tsx";
import { followTheme } from "./theme.ts";

followTheme();
startPoll();
const root = document.getElementById("page");
if (root) render(<Shell />, root);
