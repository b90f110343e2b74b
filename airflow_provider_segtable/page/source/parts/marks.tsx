// Small pieces of text that every view shares: times, intervals, chips, facts in a row, links.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { now } from "../answers.ts";
import type { Place } from "../api.ts";
import { ago, moment, place, UNKNOWN } from "../format.ts";
import { Icon } from "./icons.tsx";

export function Time({ at, age = false }: { at: string | null | undefined; age?: boolean }) {
  if (!at) return <span class="muted">{UNKNOWN}</span>;
  const full = `${moment(at)} UTC`;
  return (
    <time dateTime={at} title={age ? full : ago(at, now())}>
      {age ? ago(at, now()) : moment(at)}
    </time>
  );
}

export function Chip({ tone = "plain", children }: { tone?: string; children: ComponentChildren }) {
  return <span class={`chip ${tone}`}>{children}</span>;
}

// The kind of a plan or event with its colour, which is the same in every view.
export function Kind({ kind, like }: { kind: string; like?: string }) {
  return (
    <span class="kind">
      <span class={`swatch ${kindClass(like ?? kind)}`} aria-hidden="true" />
      {kindWord(kind)}
    </span>
  );
}

export function kindWord(kind: string): string {
  return kind.replace(/_/g, "-");
}

const KINDS: [RegExp, string][] = [
  [/semi/i, "k-semi"],
  [/minor/i, "k-minor"],
  [/major/i, "k-major"],
  [/index/i, "k-index"],
  [/publish/i, "k-publish"],
  [/clean|forget|expire|remov/i, "k-clean"],
  [/delete|update|restor/i, "k-change"],
  [/append|insert|upsert|log/i, "k-append"],
];

export function kindClass(kind: string): string {
  return KINDS.find(([pattern]) => pattern.test(kind))?.[1] ?? "k-other";
}

export function Facts({ facts }: { facts: [string, ComponentChildren, ComponentChildren?][] }) {
  return (
    <dl class="facts">
      {facts.map(([label, value, beside]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>
            <span class="value">{value}</span>
            {beside ? <span class="beside">{beside}</span> : null}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Section(props: {
  title: string;
  count?: string | number;
  beside?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="section">
      <header>
        <h2>
          {props.title}
          {props.count !== undefined && <span class="count">{props.count}</span>}
        </h2>
        {props.beside}
      </header>
      {props.children}
    </section>
  );
}

// A place in Airflow. In Airflow's iframe a link would open Airflow inside of itself, and new
// windows are forbidden: so the frame around the page follows it.
export function Outside({ href, children }: { href: string | null; children: ComponentChildren }) {
  if (!href) return <>{children}</>;
  return (
    <a href={href} onClick={(event) => follow(event, href)}>
      {children}
    </a>
  );
}

function follow(event: MouseEvent, href: string): void {
  if (window.parent === window) return;
  try {
    const around = window.parent.document;
    const link = around.createElement("a");
    link.href = new URL(href, location.href).href;
    around.body.append(link);
    link.click();
    link.remove();
    event.preventDefault();
  } catch {
    // The frame around is of another origin: the link opens here.
  }
}

export function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  };
  return (
    <div class="command">
      <code>{text}</code>
      <button type="button" class="quiet" onClick={copy} aria-label="Copy the command">
        <Icon name="copy" />
        {copied ? "copied" : "copy"}
      </button>
    </div>
  );
}

// A part of a table: a time, a bucket of it, partitions.
export function Where({ each }: { each: Place }) {
  return (
    <>
      <span class="nowrap num">{place(each.interval)}</span>
      {each.bucket !== null && <span class="muted nowrap"> bucket {each.bucket}</span>}
      {each.partitions && <span class="muted nowrap"> partitions {each.partitions}</span>}
    </>
  );
}
