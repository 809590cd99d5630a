// Lets a person decide about every suspect, by click or by key. Decisions are kept in this browser, under the
// identity of the audited data, and leave it only as the exported file.
//
// Every `article` with `data-path`, `data-label` and, if there is a suggestion, `data-proposed` gets controls.
"use strict";
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const { audit, classes, samples } = JSON.parse($("#samples").textContent);
  const labels = new Map(samples.map(([path, label]) => [path, classes[label]]));
  const known = new Set(classes);
  const cards = [...document.querySelectorAll("article[data-path]")];
  const paths = [...new Set(cards.map((card) => card.dataset.path))];
  const key = `curricle-audit-${audit}`;
  // By path: { decision: "accept" | "keep" | "drop" | "other", label }; `drop` has no label.
  let decisions = new Map();
  // Cards that were decided about since the page was opened, each with the decision before.
  let past = [];
  let current = null;

  // ---------------------------------------------------------------------------------- the controls

  const [bar, choice] = [$("#deciding").content.children[0], $("#deciding").content.children[1]];
  $("#suspects").before(bar);
  $("#classes").append(...classes.map((name) => new Option(name, name)));
  for (const card of cards) {
    const controls = choice.cloneNode(true);
    const { label, proposed } = card.dataset;
    $("[data-choose=keep] span", controls).textContent = label;
    if (proposed) $("[data-choose=accept] span", controls).textContent = proposed;
    else $("[data-choose=accept]", controls).remove();
    controls.setAttribute("aria-label", `Decision about ${card.dataset.path}`);
    card.tabIndex = -1;
    card.append(controls);
  }

  const show = (card) => {
    const made = decisions.get(card.dataset.path);
    card.dataset.decision = made?.decision ?? "";
    for (const button of card.querySelectorAll("[data-choose]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choose === made?.decision));
    }
    $(".other input", card).value = made?.decision === "other" ? made.label : "";
  };
  const count = () => {
    const of = (decision) => paths.filter((path) => decisions.get(path)?.decision === decision).length;
    const done = paths.filter((path) => decisions.has(path)).length;
    $("progress", bar).max = Math.max(paths.length, 1);
    $("progress", bar).value = done;
    $(".count", bar).textContent = `${done} of ${paths.length} decided: ${of("accept")} accepted, ${of("keep")} kept, ` +
      `${of("drop")} dropped, ${of("other")} to another class`;
  };
  const say = (text) => { $(".message", bar).textContent = text; };

  // ------------------------------------------------------------------------------------ decisions

  const keep = () => {
    try {
      localStorage.setItem(key, JSON.stringify([...decisions]));
    } catch (error) {
      say(`This browser does not keep your progress (${error.name}); export it before you close the page.`);
    }
  };
  const load = () => {
    try {
      decisions = new Map(JSON.parse(localStorage.getItem(key) ?? "[]"));
    } catch (error) {
      say(`This browser has no progress to offer (${error.name}).`);
    }
    past = [];
    cards.forEach(show);
    count();
  };
  const set = (card, made) => {
    const { path } = card.dataset;
    if (made) decisions.set(path, made);
    else decisions.delete(path);
    cards.filter((other) => other.dataset.path === path).forEach(show);
    count();
    keep();
  };
  const decide = (card, decision, label) => {
    past.push([card, decisions.get(card.dataset.path)]);
    set(card, decision ? { decision, label } : undefined);
  };
  const choose = (card, decision) => {
    const { label, proposed } = card.dataset;
    if (decision === "accept" && !proposed) return false;
    decide(card, decision, { accept: proposed, keep: label }[decision]);
    return true;
  };
  const chooseClass = (card, input) => {
    const { label, proposed } = card.dataset;
    const name = input.value.trim();
    input.setCustomValidity(name === "" || known.has(name) ? "" : `There is no class "${name}".`);
    if (!input.reportValidity()) return false;
    if (name) decide(card, name === label ? "keep" : name === proposed ? "accept" : "other", name);
    else if (card.dataset.decision === "other") decide(card);
    return true;
  };

  // ----------------------------------------------------------------------------------- moving on

  const go = (card) => {
    if (!card) return;
    current = card;
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "start" });
  };
  const undecided = (from) => {
    const open = (card) => !decisions.has(card.dataset.path);
    return cards.slice(from).find(open) ?? cards.find(open);
  };
  const next = () => {
    const card = undecided(cards.indexOf(current) + 1);
    if (card) go(card);
    else say("Everything shown is decided.");
  };

  const undo = () => {
    const [card, before] = past.pop() ?? [current];
    set(card, before);
    go(card);
  };

  document.addEventListener("focusin", (event) => { current = event.target.closest("article[data-path]") ?? current; });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choose]");
    if (!button) return;
    current = button.closest("article");
    const pressed = button.getAttribute("aria-pressed") === "true";
    choose(current, pressed ? "" : button.dataset.choose);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches(".other input")) chooseClass(event.target.closest("article"), event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.matches("input:not([type=checkbox])")) {
      const card = event.target.closest("article");
      if (card && event.key === "Escape") { show(card); go(card); }
      if (card && event.key === "Enter" && chooseClass(card, event.target)) next();
      return;
    }
    if (!$("#keys").checked || !"akdounp".includes(event.key)) return;
    event.preventDefault();
    // Nothing is decided that was not looked at: the first key only goes to a suspect.
    if (!current) return next();
    const at = cards.indexOf(current);
    if (event.key === "n") go(cards[at + 1]);
    else if (event.key === "p") go(cards[at - 1]);
    else if (event.key === "u") undo();
    else if (event.key === "o") $(".other input", current).focus();
    else if (choose(current, { a: "accept", k: "keep", d: "drop" }[event.key])) next();
  });
  $("#next", bar).addEventListener("click", next);

  // ----------------------------------------------------------------------------- export and import

  const quoted = (field) => (/[",\r\n]|^\s|\s$/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
  const table = () => {
    const rows = [["path", "label", "decision"]];
    for (const [path, label] of labels) {
      const made = decisions.get(path);
      if (made?.decision !== "drop") rows.push([path, made?.label ?? label, made?.decision ?? ""]);
    }
    return rows.map((row) => row.map(quoted).join(",") + "\n").join("");
  };
  const fields = (text) => {
    const rows = [[]];
    let end = 0;
    for (const found of text.matchAll(/("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/gy)) {
      const [whole, field, after] = found;
      rows.at(-1).push(field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field);
      end = found.index + whole.length;
      if (after === "") break;
      if (after !== ",") rows.push([]);
    }
    if (end < text.length) throw new Error(`line ${rows.length} is not CSV`);
    return rows.filter((row) => row.length > 1);
  };
  // A label that changed was accepted or chosen, a sample that is missing was dropped, and only `decision` tells a
  // kept label from an undecided one.
  const read = (text) => {
    const [titles, ...rows] = fields(text.replace(/^\uFEFF/, ""));
    const [path, label, decision] = ["path", "label", "decision"].map((title) => titles?.indexOf(title) ?? -1);
    if (path < 0 || label < 0) throw new Error("it has no columns `path` and `label`");
    const proposals = new Map(cards.map((card) => [card.dataset.path, card.dataset.proposed]));
    const listed = new Map(rows.map((row) => [row[path], row]));
    for (const [name, row] of listed) {
      if (!labels.has(name)) throw new Error(`\`${name}\` is not a sample of this audit`);
      if (!known.has(row[label])) throw new Error(`\`${row[label]}\`, the label of \`${name}\`, is not a class`);
    }
    const made = new Map();
    for (const [name, given] of labels) {
      const row = listed.get(name);
      if (!row) made.set(name, { decision: "drop" });
      else if (row[label] !== given) {
        made.set(name, { decision: row[label] === proposals.get(name) ? "accept" : "other", label: row[label] });
      } else if (row[decision] === "keep") made.set(name, { decision: "keep", label: given });
    }
    return made;
  };
  $("#export", bar).addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([table()], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say("Exported decisions.csv: all samples with their labels, without those you dropped.");
  });
  $("#import", bar).addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    try {
      const made = read(await file.text());
      if (decisions.size && !confirm(`Replace ${decisions.size} decisions by the ${made.size} of ${file.name}?`)) return;
      decisions = made;
      past = [];
      cards.forEach(show);
      count();
      say(`Imported ${made.size} decisions from ${file.name}.`);
      keep();
    } catch (error) {
      say(`${file.name} was not imported: ${error.message}.`);
    } finally {
      event.target.value = "";
    }
  });
  $("#restart", bar).addEventListener("click", () => {
    if (!decisions.size || !confirm(`Forget ${decisions.size} decisions?`)) return;
    decisions.clear();
    keep();
    load();
  });
  // The same page in another tab.
  addEventListener("storage", (event) => { if (event.key === key) load(); });
  load();
})();
