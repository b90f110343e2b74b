// One of a few: buttons beside each other, of which one is pressed.

export function Choice<K extends string>(props: {
  value: K;
  options: [K, string][];
  change: (value: K) => void;
  label: string;
}) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([key, title]) => (
        <button
          key={key}
          type="button"
          aria-pressed={key === props.value}
          onClick={() => props.change(key)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
