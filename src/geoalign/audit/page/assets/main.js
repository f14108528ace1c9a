// Puts the page together: filters, search, list, chosen group, keys, address.

const NARROW = window.matchMedia("(max-width: 60rem)");

async function start() {
  const settings = JSON.parse(byId("page-settings").textContent);
  const columns = (await unpacked("columns")).value;
  // Where nothing could be judged, scores say nothing.
  if (!settings.judged) for (const name of ["score", "probability_wrong"]) columns[name].fill(null);
  const model = new Model(columns);
  const stores = { texts: new Pieces("texts"), pairs: new Pieces("pairs") };
  const state = { passes: new Uint8Array(model.size), found: null, words: "", drawn: null };
  const search = new Search(model, stores.texts);
  const detail = new Detail(byId("detail"), model, stores, settings);
  const labels = new Labels(model, (row) => detail.text(row), settings);
  detail.labels = labels;
  const list = new List(byId("list"), byId("rows"), (group, node) => describe(model, state, settings, group, node), chosen);
  const panes = byId("panes");
  const view = (name) => { panes.dataset.view = name; };
  const toList = () => { view("list"); list.measure(); list.reveal(); byId("list").focus(); };
  detail.back = toList;
  detail.chosen = (row) => browsing() && remember(model.index[row]);
  const cards = new Cards(model, (row) => detail.text(row), labels, settings, (row) => open(`#rollout-${model.index[row]}`, true));
  labels.changed = () => filters().unlabelled && apply();
  const browsing = () => byId("browser").dataset.view === "prompts";

  /** Shows the flagged rewards ("flags") or all prompts with their responses ("prompts"). */
  function look(name) {
    byId("browser").dataset.view = name;
    for (const button of document.querySelectorAll("#views button")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
    panes.hidden = name !== "prompts";
    byId("cards").hidden = name !== "flags";
    if (name === "prompts") list.measure();
    apply();
  }

  function chosen(group, enter, row = null) {
    if (group === null) return detail.clear("No group passes these filters.");
    if (group !== detail.group || row !== null) detail.show(group, row ?? model.suspect(group, state.passes));
    if (enter) {
      view("group");
      byId("detail-title").focus({ preventScroll: !NARROW.matches });
    }
  }

  function apply() {
    const wanted = filters();
    const { groups, passes, rollouts } = model.select(wanted, state.found?.matches ?? null);
    if (wanted.unlabelled) labels.given.forEach((_, row) => { passes[row] = 0; });
    state.passes = passes;
    if (!browsing()) {
      state.drawn = cards.show(passes);
      byId("count").textContent = `${many(cards.rewards, "flagged reward")} in ${many(cards.prompts, "group")}`;
      return;
    }
    byId("more-cards").hidden = true;
    list.show(groups, detail.group);
    const all = groups.length === model.groups.length && rollouts === model.size;
    byId("count").textContent = all
      ? `${many(groups.length, "group")}, ${many(rollouts, "rollout")}`
      : `${whole(groups.length)} of ${many(model.groups.length, "group")}, ${whole(rollouts)} of ${many(model.size, "rollout")}`;
  }

  async function seek() {
    const words = byId("query").value.trim();
    if (words === state.words) return;
    state.words = words;
    detail.words = words;
    search.stop();
    if (!words) state.found = null;
    else {
      const found = await search.run(words, (share) => { byId("count").textContent = `Searching: ${Math.round(100 * share)}%`; });
      if (!found) return;
      state.found = found;
    }
    detail.group = null; // its chosen rollout may not pass any more
    apply();
  }

  for (const step of [...new Set(model.group_step)].sort((a, b) => a - b)) {
    byId("step")?.append(el("option", { value: step, text: step }));
  }
  let waiting;
  byId("query").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(seek, 120); });
  byId("tools").addEventListener("change", (event) => event.target.id === "query" || apply());
  for (const box of document.querySelectorAll(".range input")) box.addEventListener("input", apply);
  byId("tools").addEventListener("submit", (event) => event.preventDefault());
  byId("tools").addEventListener("reset", () => setTimeout(() => { seek(); apply(); }));
  keys(list, browsing, toList, seek);
  for (const button of document.querySelectorAll("#views button")) button.addEventListener("click", () => look(button.dataset.view));
  labels.start();
  byId("tools").hidden = false;
  if (byId("views")) byId("views").hidden = false;
  byId("filters").open = !NARROW.matches;
  const asked = location.hash; // the first choice writes its own
  look(byId("browser").dataset.view);
  function open(hash, enter) {
    const row = model.place.get(Number(/^#rollout-(\d+)$/.exec(hash)?.[1] ?? NaN));
    if (row === undefined) return;
    if (!browsing()) look("prompts");
    const place = list.groups.indexOf(model.group[row]);
    if (place < 0) return;
    list.at = place;
    list.reveal();
    list.draw();
    chosen(model.group[row], enter, row);
    byId("panes").scrollIntoView();
  }
  open(asked, NARROW.matches);
  window.addEventListener("hashchange", () => open(location.hash, true));
  await state.drawn;
  document.documentElement.dataset.ready = "yes";
}

/** What the filters say; an empty or unreadable number is an open end. */
function filters() {
  const number = (id) => (byId(id).value === "" || Number.isNaN(byId(id).valueAsNumber) ? null : byId(id).valueAsNumber);
  const step = byId("step")?.value ?? "";
  return {
    flagged: byId("flagged")?.checked && byId("browser").dataset.view === "prompts",
    unlabelled: byId("unlabelled")?.checked && byId("browser").dataset.view === "flags",
    correct: byId("correct")?.checked ?? false,
    reward: [number("reward-low"), number("reward-high")],
    length: [number("length-low"), number("length-high")],
    step: step === "" ? null : Number(step),
    sort: byId("sort").value,
  };
}

// One line has little room; without their delimiters formulas read well enough.
const PLAIN = /\$([^$]{1,80})\$|\\\(([^]{1,80}?)\\\)/g;

/** A group in the list: the opening of its prompt or what was found, its rewards as bars, its numbers. */
function describe(model, state, settings, group, node) {
  const facts = model.facts[group];
  const found = state.found?.snippets.get(group);
  const opening = model.openings[group] || `Group ${model.groups[group]}: ${model.id[model.rows[group][0]]}`;
  const title = el("bdi", { class: "opening" });
  if (found) title.append(found[0], el("mark", { class: "hit", text: found[1] }), found[2]);
  else title.textContent = visible(opening).replace(PLAIN, (all, dollars, round) => dollars ?? round);
  const numbers = [
    facts.flagged ? el("b", { text: `${whole(facts.flagged)} flagged` }) : null,
    facts.flagged && facts.wrong !== null ? el("span", { text: `wrong: ${rough(facts.wrong)}` })
      : facts.wrong !== null || facts.score === null ? null : el("span", { text: `${settings.score} ${short(facts.score)}` }),
    el("span", { text: `mean reward ${short(facts.mean)}` }),
  ];
  const step = model.steps > 1 ? el("span", { class: "row-step", text: `step ${model.group_step[group]}` }) : null;
  node.replaceChildren(el("div", { class: "row-title" }, title, step), el("div", { class: "row-facts" }, strip(model, state, group), ...numbers));
}

/** The rewards of a group from highest to lowest as bars on the scale of the page: flagged ones coloured, those that do not pass pale. */
function strip(model, state, group) {
  const rows = [...model.rows[group]].sort((a, b) => compare(descending(model.reward[a]), descending(model.reward[b]))).slice(0, 32);
  const width = rows.length * 5;
  const box = svg("svg", { class: "strip", width, height: 18, viewBox: `0 0 ${width} 18`, preserveAspectRatio: "none", "aria-hidden": "true" });
  rows.forEach((row, at) => {
    const height = 3 + 15 * model.rewardShare(model.reward[row]);
    const kind = `${model.flagged[row] ? "flagged" : ""} ${state.passes[row] ? "" : "pale"}`;
    box.append(svg("rect", { x: at * 5, y: 18 - height, width: 4, height, class: kind }));
  });
  return box;
}

function keys(list, browsing, toList, seek) {
  const query = byId("query");
  query.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      seek();
      if (browsing()) list.box.focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input:not([type=radio], [type=checkbox]), select, textarea");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      byId("browser").scrollIntoView();
      query.focus();
      query.select();
    } else if (event.key === "Escape") {
      if (event.target === query && query.value) {
        query.value = "";
        seek();
      } else if (browsing() && event.target.closest("#detail, #tools")) toList();
      else return;
      event.preventDefault();
    }
  });
}

/** Keeps the chosen rollout in the address, so that reloading or sending the address comes back to it. */
function remember(index) {
  try {
    history.replaceState(null, "", `#rollout-${index}`);
  } catch (error) {
    // Some browsers forbid it for files; the page works without.
  }
}

start().catch((error) => {
  byId("count").textContent = `The groups could not be opened: ${error.message}`;
  document.documentElement.dataset.ready = "failed";
});
