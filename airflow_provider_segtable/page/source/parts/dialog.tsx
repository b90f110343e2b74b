// A modal dialog: the browser's own, which keeps the focus inside and closes on Escape.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icons.tsx";

export function Dialog(props: { title: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const outside = (event: MouseEvent) => {
    if (event.target === dialog.current) props.close();
  };
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={props.close} onMouseDown={outside}>
      <div class="panel">
        <header>
          <h2 id="dialog-title">{props.title}</h2>
          <button type="button" class="quiet" onClick={props.close} aria-label="Close">
            <Icon name="close" />
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
