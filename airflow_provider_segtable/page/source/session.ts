// Who reads, and what they may do: asked once, known to every view.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Session } from "./api.ts";

export type ActionName =
  | "plan"
  | "compact"
  | "clean"
  | "tag"
  | "restore"
  | "index"
  | "rebuild_index"
  | "publish"
  | "unlock";

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session | null {
  return useContext(SessionContext);
}

// What is not allowed is not shown. The server refuses it in any case.
export function useAllowed(action: ActionName): boolean {
  const session = useSession();
  return session !== null && !session.read_only && session.actions.includes(action);
}
