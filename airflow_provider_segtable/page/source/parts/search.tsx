// A search field.

import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icons.tsx";

const PAUSE_MS = 200;

// Asks a moment after the last key.
export function Search(props: { value: string; change: (text: string) => void; label: string }) {
  const [text, setText] = useState(props.value);
  const sent = useRef(props.value);
  useEffect(() => {
    if (props.value !== sent.current) setText(props.value);
    sent.current = props.value;
  }, [props.value]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      props.change(text);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="search">
      <Icon name="search" />
      <span class="visually-hidden">{props.label}</span>
      <input
        type="search"
        value={text}
        placeholder={props.label}
        data-shortcut="search"
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </label>
  );
}
