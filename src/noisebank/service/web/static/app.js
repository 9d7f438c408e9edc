// What pages need beyond htmx: the wallet, the slider, live balance, verification as it goes, one chart.
// Everything here is an addition: without it the same forms work, one page at a time.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);

// -- wallet ------------------------------------------------------------------------------------

async function account() {
  if (!window.ethereum) throw new Error("There is no wallet in this browser. Install one, or use a key.");
  const found = await window.ethereum.request({ method: "eth_requestAccounts" });
  if (!found || !found.length) throw new Error("The wallet shows no account.");
  return found[0];
}

function hex(text) {
  return "0x" + Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function inWords(error) {
  if (error && error.code === 4001) return "The wallet's owner said no. Nothing happened.";
  return (error && error.message) || "The wallet did not answer.";
}

async function signInWithWallet(form, said) {
  said.textContent = "Look at your wallet.";
  try {
    const address = await account();
    const asked = await fetch("/v1/sign-in/nonce", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ address }),
    });
    const given = await asked.json();
    if (!asked.ok) throw new Error(given.detail);
    const signature = await window.ethereum.request({ method: "personal_sign", params: [hex(given.message), address] });
    form.elements.message.value = given.message;
    form.elements.signature.value = signature;
    form.submit();
  } catch (error) {
    said.textContent = inWords(error);
  }
}

// An analyst who must sign each answer: the wallet agrees to question, accuracy and price before the request goes.
async function signSpend(form, address) {
  const asked = await fetch(address, { method: "POST", headers: { "HX-Request": "true" }, body: new URLSearchParams(new FormData(form)) });
  const given = await asked.json();
  if (!asked.ok) throw new Error(given.detail);
  const who = await account();
  const typed = JSON.stringify(given.typed);
  form.elements.signature.value = await window.ethereum.request({ method: "eth_signTypedData_v4", params: [who, typed] });
  form.elements.max_cost_units.value = given.typed.message.maxCost;
  form.elements.deadline.value = given.typed.message.deadline;
}

// -- console -----------------------------------------------------------------------------------

function markMistakes() {
  for (const message of document.querySelectorAll(".field-error")) {
    const field = document.querySelector(`[aria-describedby~="${message.id}"]`);
    if (!field) continue;
    if (message.textContent.trim()) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
}

function setUpConsole(form) {
  const working = $("#working");
  form.addEventListener("input", (event) => {
    if (["slide", "within"].includes(event.target.name)) form.elements.moved.value = event.target.name;
    else if (form.elements.moved.value === "slide") form.elements.within.value = "";
    hints();
  });
  const hints = () => {
    for (const box of form.querySelectorAll("[name$=_value]")) {
      const chosen = form.elements[box.name.replace("_value", "_column")].selectedOptions[0];
      box.placeholder = (chosen && chosen.dataset.allowed) || "";
    }
  };
  hints();
  document.body.addEventListener("htmx:afterSwap", () => {
    const moved = $("#moved-to");
    if (moved) {
      const { within, slide } = form.elements;
      if (moved.dataset.moved === "slide" && document.activeElement !== within) within.value = moved.dataset.within;
      if (moved.dataset.moved !== "slide" && document.activeElement !== slide) slide.value = moved.dataset.slide;
      slide.setAttribute("aria-valuetext", `within ${moved.dataset.within}`);
    }
  });
  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target === form) working.textContent = "Asking …";
  });
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.target !== form) return;
    working.textContent = event.detail.xhr && event.detail.xhr.status ? "" : "No answer came back. Ask again: the same form is charged once.";
    if (!event.detail.xhr || !event.detail.xhr.status) return;
    if (event.detail.successful) htmx.ajax("GET", location.pathname + "/history", { target: "#history" });
    htmx.trigger("#quoter", "requote");
  });
  document.body.addEventListener("htmx:confirm", (event) => {
    const button = $("#ask-button");
    if (event.target !== form || !button.dataset.sign) return;
    event.preventDefault();
    working.textContent = "Look at your wallet.";
    signSpend(form, button.dataset.sign).then(() => event.detail.issueRequest(true), (error) => { working.textContent = inWords(error); });
  });
}

function percent(share) {  // as core/wording.py writes it: a part never reads as all or as nothing
  const value = share * 100;
  if (value === 0 || (value >= 10 && value < 99.5) || value >= 100) return `${value.toFixed(0)}%`;
  if (value < 10) return value >= 0.001 ? `${Number(value.toPrecision(2))}%` : "under 0.001%";
  const places = [1, 2, 3].find((count) => Number(value.toFixed(count)) < 100);
  return places ? `${value.toFixed(places)}%` : "over 99.999%";
}

function followBalance(box) {
  const source = new EventSource(box.dataset.live);
  source.addEventListener("balance", (event) => {
    const now = JSON.parse(event.data);
    const share = Math.min(1, Number(now.spent) / Number(now.budget));
    $("#balance-left").textContent = percent(Number(now.left) / Number(now.budget));
    if (now.view_used !== null && $("#balance-view")) $("#balance-view").textContent = percent(Number(now.view_used) / Number(now.budget));
    const used = $(".used", box);
    if (used) used.setAttribute("width", String(Math.max(share * 400, share ? 2 : 0)));
  });
  window.addEventListener("pagehide", () => source.close());
}

// -- ledger ------------------------------------------------------------------------------------

function setUpVerify(form) {
  const bar = $("#verify-bar"), said = $("#verify-said"), button = $("#verify-button"), report = $("#report");
  const wrong = $("#error-head"), head = form.elements.head, unit = form.dataset.unit || "blocks";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (wrong) wrong.textContent = "";
    markMistakes();
    report.replaceChildren();
    $("#verify-progress").hidden = false;
    button.disabled = true;
    bar.value = 0;
    said.textContent = "Waiting for a turn …";
    const source = new EventSource(form.dataset.events + (head ? `?head=${encodeURIComponent(head.value.trim())}` : ""));
    const done = () => { source.close(); button.disabled = false; $("#verify-progress").hidden = true; };
    source.addEventListener("progress", (message) => {
      const now = JSON.parse(message.data);
      bar.max = now.total;
      bar.value = now.done;
      said.textContent = `${now.done} of ${now.total} ${unit}`;
    });
    source.addEventListener("report", (message) => {
      done();
      report.innerHTML = JSON.parse(message.data).html;
      $("h3", report).focus();
    });
    source.addEventListener("mistake", (message) => {
      done();
      wrong.textContent = JSON.parse(message.data).detail;
      markMistakes();
      head.focus();
    });
    source.addEventListener("trouble", (message) => { done(); said.textContent = JSON.parse(message.data).detail; $("#verify-progress").hidden = false; bar.value = 0; });
    source.onerror = () => { done(); $("#verify-progress").hidden = false; said.textContent = "It was cut off, or others are verifying. Try again in a moment."; };
  });
}

// -- statement ---------------------------------------------------------------------------------

async function drawCurve(box) {
  if (!window.uPlot) return;
  const asked = await fetch(box.dataset.curve, { headers: { accept: "application/json" } });
  if (!asked.ok) return;
  const curve = await asked.json();
  const budget = 100, scale = 100 / (curve.budget || 1);  // shares of the budget, in percent
  const points = curve.points.map((p) => [p[0], p[1], p[2] * scale, p[3] * scale, (p[2] - p[4]) * scale]);
  if (points.length < 2) return;
  const most = Math.max(...points.map((p) => Math.max(p[2], p[3])));  // a budget far away would flatten all else
  const looked = points.some((p) => p[4] < p[2]);
  const data = [points.map((p) => p[0]), points.map((p) => p[2]), points.map((p) => p[3]), points.map(() => budget), ...(looked ? [points.map((p) => p[4])] : [])];
  const when = (place) => (place === null || place === undefined ? "–" : new Date(points[place][1] * 1000).toISOString().slice(0, 16).replace("T", " "));
  const amount = (plot, value) => (value === null || value === undefined ? "–" : percent(value / 100));
  redrawn(box, (colour) => ({
    scales: { x: { time: false }, y: { range: () => [0, (budget > 4 * most ? most : Math.max(most, budget)) * 1.05] } },
    axes: [{ label: "answers", labelSize: 22 }, { size: 58 }],
    series: [
      { label: "answer", value: (u, v, s, place) => (v === null || v === undefined ? "–" : `${v} (${when(place)} UTC)`) },
      { label: "spent", stroke: colour("--spent"), width: 2.5, value: amount },
      { label: "without reuse", stroke: colour("--naive"), width: 2.5, dash: [7, 4], value: amount },
      { label: "budget", stroke: colour("--soft"), width: 1.5, dash: [2, 4], value: amount },
      ...(looked ? [{ label: "of it for answers", stroke: colour("--spent"), width: 1, value: amount }] : []),
    ],
    bands: looked ? [{ series: [1, 4], fill: colour("--other") + "48" }] : [],
  }), data, "Spending over time");
}

// -- learning ----------------------------------------------------------------------------------

async function drawAccuracy(box) {
  if (!window.uPlot || box.dataset.drawn) return;
  box.dataset.drawn = "yes";
  const asked = await fetch(box.dataset.accuracy, { headers: { accept: "application/json" } });
  if (!asked.ok) return;
  const { points } = await asked.json();
  if (points.length < 2) return;
  const share = (plot, value) => (value === null || value === undefined ? "–" : value.toFixed(3));
  const rounds = points.map((p) => p[0]);
  const data = [rounds, points.map((p) => p[1]), ...(box.dataset.noisy ? [points.map((p) => p[2])] : [])];
  const whole = (plot, splits) => splits.map((value) => (Number.isInteger(value) ? String(value) : ""));
  redrawn(box, (colour, width) => ({
    scales: { x: { time: false }, y: { range: () => [0, 1] } },
    axes: [{ label: "round", labelSize: 22, values: whole, incrs: [1, 2, 5, 10, 20, 50, 100] }, { size: 46 }],
    series: [
      { label: "round", value: (plot, value) => (value === null || value === undefined ? "–" : value === 0 ? "start" : String(value)) },
      { label: "accuracy", stroke: colour("--spent"), width: 2.5, value: share, points: { show: true, size: 7 } },
      ...(box.dataset.noisy ? [{ label: "with noise", stroke: colour("--naive"), width: 2.5, dash: [7, 4], value: share, points: { show: true, size: 7 } }] : []),
    ],
  }), data, "Accuracy by round");
}

// -- charts ------------------------------------------------------------------------------------

// Instead of the server's picture, in the page's colours, and again whenever width or colours change.
function redrawn(box, described, data, label) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const picture = $("svg", box);
  const title = (picture && picture.getAttribute("aria-label")) || label;
  const draw = () => {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    const width = box.clientWidth, made = described(colour, width);
    box.replaceChildren();
    const plot = new uPlot({
      width, height: Math.max(220, Math.min(340, width * 0.42)), ...made, axes: made.axes.map((each) => ({ ...axis, ...each })),
    }, data, box);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", title);
  };
  draw();
  let width = box.clientWidth;
  new ResizeObserver(() => { if (Math.abs(box.clientWidth - width) > 4) { width = box.clientWidth; draw(); } }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

// -- all pages ---------------------------------------------------------------------------------

document.addEventListener("DOMContentLoaded", () => {
  document.body.addEventListener("htmx:afterSettle", (event) => {
    markMistakes();
    document.querySelectorAll("[data-accuracy]").forEach(drawAccuracy);
    if (event.detail.target && event.detail.target.id === "round-card" && $("#round")) $("#round").focus();
    if (event.detail.target && event.detail.target.id === "answer") {
      const heading = $("h2", event.detail.target);
      if (heading) { heading.focus(); heading.scrollIntoView({ block: "nearest" }); }
      const first = document.querySelector("#ask [aria-invalid=true]");
      if (first && event.detail.target.querySelector(".warn")) first.focus();
    }
  });
  markMistakes();
  const wallet = $("#wallet");
  if (wallet) wallet.addEventListener("click", () => signInWithWallet($("#wallet-form"), $("#wallet-said")));
  if ($("#ask")) setUpConsole($("#ask"));
  if ($("[data-live]")) followBalance($("[data-live]"));
  if ($("#verify-form")) setUpVerify($("#verify-form"));
  if ($("[data-curve]")) drawCurve($("[data-curve]"));
  document.querySelectorAll("[data-accuracy]").forEach(drawAccuracy);
});
