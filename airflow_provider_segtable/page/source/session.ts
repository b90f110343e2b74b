// What the reader may do to the table in sight: asked once, known to all its views.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

export type ActionName =
  | "plan"
  | "compact"
  | "clean"
  | "tag"
  | "untag"
  | "restore"
  | "index"
  | "build_index"
  | "rebuild_index"
  | "publish"
  | "unlock";

// The names of what the reader may do to the table in sight.
export const AllowedContext = createContext<ReadonlySet<string>>(new Set());

// What is not allowed is not shown. The server refuses it in any case.
export function useAllowed(action: ActionName): boolean {
  return useContext(AllowedContext).has(action);
}
