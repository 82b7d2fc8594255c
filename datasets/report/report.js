"use strict";
(function () {
  // Tables: a heading is a button that sorts by its column.
  var number = function (text) {
    var n = parseFloat(text.replace(/[,\s$%]/g, "").replace("−", "-"));
    return isNaN(n) ? null : n;
  };
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var body = table.tBodies[0];
    if (!body) { return; }
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      cell.textContent = "";
      cell.appendChild(button);
      button.addEventListener("click", function () {
        var down = cell.getAttribute("aria-sort") !== "descending";
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (c) { c.removeAttribute("aria-sort"); });
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        var rows = Array.prototype.slice.call(body.rows).map(function (row, i) {
          var text = row.cells[column] ? row.cells[column].textContent.trim() : "";
          return { row: row, text: text, n: number(text), i: i };
        });
        rows.sort(function (a, b) {
          var way = down ? -1 : 1;
          if (a.n !== null && b.n !== null) { return (a.n - b.n) * way || a.i - b.i; }
          if (a.n !== null || b.n !== null) { return a.n !== null ? -1 : 1; }
          return a.text.localeCompare(b.text) * way || a.i - b.i;
        });
        rows.forEach(function (r) { body.appendChild(r.row); });
      });
    });
  });

  // Prompts: a page of them at a time, so that thousands stay fluid.
  var holder = document.getElementById("prompts-data");
  if (!holder) { return; }
  var data = JSON.parse(holder.textContent);
  var shownAtOnce = 10;
  var list = document.getElementById("prompts");
  var count = document.getElementById("prompts-count");
  var find = document.getElementById("prompts-find");
  var domain = document.getElementById("prompts-domain");
  var show = document.getElementById("prompts-show");
  var back = document.getElementById("prompts-back");
  var on = document.getElementById("prompts-on");
  var start = 0;
  var found = data.tasks;

  var make = function (tag, kind, text) {
    var e = document.createElement(tag);
    if (kind) { e.className = kind; }
    if (text !== undefined) { e.textContent = text; }
    return e;
  };
  data.tasks.forEach(function (t) {
    t.where = t.domain + " at " + t.effort;
    t.search = (t.prompt + "\n" + (t.gold || "") + "\n" + t.answers.map(function (a) {
      return [a.teacher, a.verdict, a.text, a.thought, a.error, (a.reasons || []).join(" "), (a.flags || []).join(" ")].join(" ");
    }).join("\n")).toLowerCase();
    var passed = {}, failed = {};
    t.answers.forEach(function (a) { (a.verdict === "pass" ? passed : failed)[a.teacher] = true; });
    t.some = Object.keys(passed).length;
    t.disagree = t.some > 0 && Object.keys(failed).some(function (id) { return !passed[id]; });
    t.rejected = t.answers.some(function (a) { return a.reasons && a.reasons.length > 0; });
    t.unknown = t.answers.some(function (a) { return a.verdict === "unknown"; });
  });
  var places = {};
  data.tasks.forEach(function (t) { places[t.where] = (places[t.where] || 0) + 1; });
  Object.keys(places).sort().forEach(function (p) {
    var o = make("option", "", (p.length > 60 ? p.slice(0, 59) + "…" : p) + " (" + places[p] + ")");
    o.value = p;
    domain.appendChild(o);
  });

  var answer = function (a) {
    var box = make("article", "answer " + (a.verdict || "none"));
    var head = make("h4", "", a.teacher + (a.sample ? " #" + (a.sample + 1) : ""));
    box.appendChild(head);
    var facts = [];
    if (a.error) { facts.push("failed: " + a.error); }
    if (a.verdict) { facts.push(a.verdict); }
    if (a.read) { facts.push("read as " + a.read); }
    if (a.selected) { facts.push("in the dataset"); } else if (a.accepted) { facts.push("accepted"); }
    if (a.tokens) { facts.push(a.tokens.toLocaleString("en") + " tokens"); }
    if (a.micros) { facts.push("$" + (a.micros / 1e6).toFixed(6)); }
    box.appendChild(make("p", "facts", facts.join(" · ")));
    if (a.reasons) { box.appendChild(make("p", "reasons", "not accepted: " + a.reasons.join(", "))); }
    if (a.said) { box.appendChild(make("p", "facts", a.said.join("; "))); }
    if (a.flags) { box.appendChild(make("p", "facts", "flags: " + a.flags.join(", "))); }
    if (a.thought) {
      var d = make("details");
      d.appendChild(make("summary", "", "reasoning"));
      d.appendChild(make("pre", "", a.thought));
      box.appendChild(d);
    }
    if (a.text) { box.appendChild(make("pre", "", a.text)); }
    return box;
  };
  var render = function () {
    list.textContent = "";
    found.slice(start, start + shownAtOnce).forEach(function (t) {
      var section = make("section", "prompt");
      section.appendChild(make("h3", "", t.where));
      section.appendChild(make("pre", "asked", t.prompt));
      if (t.gold) { section.appendChild(make("p", "facts", "gold: " + t.gold)); }
      var row = make("div", "answers");
      t.answers.forEach(function (a) { row.appendChild(answer(a)); });
      section.appendChild(row);
      if (t.more) { section.appendChild(make("p", "facts", t.more + " more answers")); }
      list.appendChild(section);
    });
    var last = Math.min(start + shownAtOnce, found.length);
    count.textContent = found.length === 0 ? "no prompt is like that" :
      (start + 1) + " to " + last + " of " + found.length + " prompts" + (data.of > data.tasks.length ? " (a sample of " + data.of.toLocaleString("en") + ")" : "");
    // Not disabled: a button that is loses the focus of whoever stands on it.
    back.setAttribute("aria-disabled", String(start === 0));
    on.setAttribute("aria-disabled", String(last >= found.length));
  };
  var search = function () {
    var words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = data.tasks.filter(function (t) {
      if (domain.value && t.where !== domain.value) { return false; }
      if (show.value === "disagree" && !t.disagree) { return false; }
      if (show.value === "nobody" && t.some > 0) { return false; }
      if (show.value === "rejected" && !t.rejected) { return false; }
      if (show.value === "unknown" && !t.unknown) { return false; }
      return words.every(function (w) { return t.search.indexOf(w) >= 0; });
    });
    start = 0;
    render();
  };
  var waiting = 0;
  find.addEventListener("input", function () {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  domain.addEventListener("change", search);
  show.addEventListener("change", search);
  var turn = function (by) {
    if (start + by < 0 || start + by >= found.length) { return; }
    start += by;
    render();
    document.getElementById("prompts-top").scrollIntoView();
  };
  back.addEventListener("click", function () { turn(-shownAtOnce); });
  on.addEventListener("click", function () { turn(shownAtOnce); });
  document.getElementById("prompts-box").hidden = false;
  document.getElementById("prompts-link").hidden = false;
  render();
})();
