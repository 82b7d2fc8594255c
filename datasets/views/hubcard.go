package views

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// hubCard is a view's dataset card: YAML that the hub and the datasets library
// read, then what a person wants to know before training on the rows. Names and
// texts of recipes, teachers and data are quoted in the YAML and can't begin
// markup in the text.
func hubCard(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, p *plan, a *about) (string, error) {
	compared, err := compared(ctx, cat, m)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	cardYAML(&b, m, p, a)
	cardHead(&b, m, p, a)
	cardTable(&b, m, a)
	cardLoading(&b, p, a)
	cardMaking(&b, m)
	cardCounts(&b, m)
	cardComparison(&b, compared)
	cardLineage(&b, m, p)
	return b.String(), nil
}

// maxReport bounds a report.json.
const maxReport = 64 << 20

// compared is the report of a version; nil for none.
func compared(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest) (*report.Report, error) {
	i := slices.IndexFunc(m.Reports, func(key string) bool { return strings.HasSuffix(key, "/report.json") })
	if i < 0 {
		return nil, nil
	}
	text, _, err := objstore.ReadAll(ctx, cat.Bucket(), m.Reports[i], maxReport)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: the version's report %s is gone; stillhouse verify says what else is", catalog.ErrDamaged, m.Reports[i])
	}
	if err != nil {
		return nil, err
	}
	var r report.Report
	if json.Unmarshal(text, &r) != nil || r.FormatVersion > report.FormatVersion {
		return nil, nil // of another release
	}
	return &r, nil
}

// quoted is text in YAML's double quotes. All but plain ASCII is escaped, so
// that no name of a recipe or of data ends it.
func quoted(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		default: // YAML's escape of any character
			fmt.Fprintf(&b, "\\U%08x", r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// hubLicences are the identifiers of licences that the hub knows, as far as
// teachers' terms name them, by their spelling in lower case.
var hubLicences = []string{
	"apache-2.0", "mit", "openrail", "bigscience-openrail-m", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0",
	"cc-by-nd-4.0", "cc-by-nc-nd-4.0", "cc-by-3.0", "cc-by-sa-3.0", "odc-by", "pddl", "odbl", "bsd", "bsd-2-clause", "bsd-3-clause", "gpl-3.0",
	"agpl-3.0", "lgpl-3.0", "mpl-2.0", "isc", "unlicense", "wtfpl", "llama2", "llama3", "llama3.1", "llama3.2", "llama3.3", "llama4", "gemma",
	"cdla-permissive-2.0", "cdla-permissive-1.0", "cdla-sharing-1.0",
}

// cardLicence is what the card says of the licence: one that the hub knows where
// all teachers that gave rows have it, else other with its name.
func cardLicence(b *strings.Builder, a *about) {
	names := map[string]bool{}
	url := ""
	for _, id := range sortedKeys(a.Terms) {
		t := a.Terms[id]
		names[t.Licence] = true
		if url == "" {
			url = t.URL
		}
	}
	delete(names, "")
	all := sortedKeys(names)
	if len(all) == 0 {
		return
	}
	if known := strings.ToLower(all[0]); len(all) == 1 && slices.Contains(hubLicences, known) {
		fmt.Fprintf(b, "license: %s\n", quoted(known))
		return
	}
	fmt.Fprintf(b, "license: other\nlicense_name: %s\n", quoted(strings.Join(all, ", ")))
	if url != "" {
		fmt.Fprintf(b, "license_link: %s\n", quoted(url))
	}
}

// sizeCategory is the hub's word for so many rows.
func sizeCategory(rows int64) string {
	for _, c := range []struct {
		below int64
		name  string
	}{
		{1_000, "n<1K"}, {10_000, "1K<n<10K"}, {100_000, "10K<n<100K"}, {1_000_000, "100K<n<1M"}, {10_000_000, "1M<n<10M"},
		{100_000_000, "10M<n<100M"}, {1_000_000_000, "100M<n<1B"},
	} {
		if rows < c.below {
			return c.name
		}
	}
	return "1B<n<10B"
}

func cardYAML(b *strings.Builder, m *catalog.Manifest, p *plan, a *about) {
	var rows, size int64
	bytesOf := map[string]int64{}
	for _, f := range a.Files {
		if f.Split != "" {
			bytesOf[f.Split] += f.Bytes
			size += f.Bytes
		}
	}
	b.WriteString("---\n")
	fmt.Fprintf(b, "pretty_name: %s\n", quoted(m.Dataset))
	cardLicence(b, a)
	b.WriteString("task_categories:\n- text-generation\n")
	for _, n := range a.Rows {
		rows += n
	}
	fmt.Fprintf(b, "size_categories:\n- %s\n", quoted(sizeCategory(rows)))
	b.WriteString("tags:\n- distillation\n- synthetic\n- stillhouse\n")
	if a.Form != Arrow { // whose files the hub reads by their first batch
		b.WriteString("configs:\n- config_name: default\n  data_files:\n")
		for _, split := range exported {
			if a.Rows[split] > 0 {
				fmt.Fprintf(b, "  - split: %s\n    path: %s%s-*\n", split, p.view.folder(split), split)
			}
		}
	}
	// Features are declared for JSON Lines above all, where loaders would infer
	// a null type for a column that starts without values. Sizes are those of
	// the files.
	b.WriteString("dataset_info:\n  features:\n" + p.shape.features(a.Form) + "  splits:\n")
	for _, split := range exported {
		if a.Rows[split] > 0 {
			fmt.Fprintf(b, "  - name: %s\n    num_bytes: %d\n    num_examples: %d\n", split, bytesOf[split], a.Rows[split])
		}
	}
	fmt.Fprintf(b, "  download_size: %d\n  dataset_size: %d\n---\n\n", size, size)
}

func cardHead(b *strings.Builder, m *catalog.Manifest, p *plan, a *about) {
	version := ""
	if a.Version > 0 {
		version = fmt.Sprintf(", version %d", a.Version)
	}
	fmt.Fprintf(b, "# %s\n\nView `%s` of dataset `%s`%s, %s.\n\n", m.Dataset, a.View, m.Dataset, version, madeOf(m, a))
	b.WriteString(p.shape.Prose + " `manifest.json` has the SHA-256 of every file.\n\n")
	for _, w := range a.Warnings {
		fmt.Fprintf(b, "- %s\n", inline(w))
	}
	for _, reason := range sortedKeys(a.LeftOut) {
		fmt.Fprintf(b, "- %d rows of the version are left out: %s\n", a.LeftOut[reason], strings.ReplaceAll(reason, "_", " "))
	}
	if len(a.Warnings)+len(a.LeftOut) > 0 {
		b.WriteString("\n")
	}
}

// madeOf says what the rows are of.
func madeOf(m *catalog.Manifest, a *about) string {
	switch n := len(a.Terms); {
	case m.Imported != nil:
		return "imported into Stillhouse"
	case n == 0:
		return "made with Stillhouse: prompts without answers"
	case n == 1:
		return "made with Stillhouse from the answers of one teacher"
	default:
		return fmt.Sprintf("made with Stillhouse from the answers of %d teachers", n)
	}
}

// cardLoading shows how the rows are read.
func cardLoading(b *strings.Builder, p *plan, a *about) {
	b.WriteString("## Loading\n\n")
	if a.Form == Arrow {
		b.WriteString("```python\nimport pyarrow as pa\n\nwith pa.ipc.open_stream(\"PATH/" + firstData(a) + "\") as batches:\n    table = batches.read_all()\n```\n\n")
		return
	}
	b.WriteString("```python\nfrom datasets import load_dataset\n\nds = load_dataset(\"PATH\")  # this folder, or its name on the hub\n```\n\n")
	if a.Form == Parquet {
		fmt.Fprintf(b, "```sql\nSELECT count(*) FROM read_parquet('PATH/%strain-*.parquet');  -- DuckDB\n```\n\n", p.view.folder("train"))
	}
}

func firstData(a *about) string {
	for _, f := range a.Files {
		if f.Split != "" {
			return f.Path
		}
	}
	return ""
}

// kindWords are the kinds of methods in words.
var kindWords = map[string]string{
	catalog.MethodPromptFilter: "filter of prompts", catalog.MethodVerifier: "verifier", catalog.MethodFilter: "filter",
	catalog.MethodPolicy: "merge policy", catalog.MethodPairs: "preference pairs", catalog.MethodMix: "mixture",
}

// cardMaking says which methods decided what is in the version.
func cardMaking(b *strings.Builder, m *catalog.Manifest) {
	b.WriteString("## How it was made\n\n")
	if i := m.Imported; i != nil {
		fmt.Fprintf(b, "It was imported from %s (SHA-256 `%.64s`), whose rows have the shape %s: %d rows were read, %d could not be used, %d were there twice. No verifier ran.\n\n",
			code(i.Source), i.SHA256, code(i.Shape), i.Rows, i.BadRows, i.Duplicates)
		return
	}
	for _, t := range m.Teachers {
		if len(t.Serves) > 0 {
			fmt.Fprintf(b, "- teacher %s serves %s\n", code(t.ID), served(t.Serves))
		}
	}
	if len(m.Methods) > 0 {
		b.WriteString("\n| step | name | version | where | options |\n|---|---|---|---|---|\n")
		for _, k := range m.Methods {
			kind := kindWords[k.Kind]
			if kind == "" {
				kind = inline(k.Kind)
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", kind, inline(k.Name), inline(k.Version), code(k.When), code(compact(k.Options)))
		}
	}
	b.WriteString("\n")
}

// served are the domains and efforts that a teacher serves, in words.
func served(raw json.RawMessage) string {
	var parts []string
	for _, s := range servesOf(raw) {
		domain := "every domain"
		if s.Domain != "" {
			domain = inline(s.Domain)
		}
		if len(s.Effort) > 0 {
			domain += " (" + inline(strings.Join(s.Effort, ", ")) + ")"
		}
		parts = append(parts, domain)
	}
	return strings.Join(parts, ", ")
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// code is text as inline code, "" for none. There a backslash is itself, but one
// before a bar would end a table's cell.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.NewReplacer("`", "'", `\|`, `\ \|`, "|", `\|`).Replace(plain(s)) + "`"
}

// cardCounts says what came of the tasks and of the answers.
func cardCounts(b *strings.Builder, m *catalog.Manifest) {
	n := m.Counts
	b.WriteString("## Counts\n\n| | |\n|---|---|\n")
	count := func(what string, n int64) {
		if n > 0 {
			fmt.Fprintf(b, "| %s | %d |\n", what, n)
		}
	}
	count("prompts", n.Prompts)
	count("tasks (a prompt at a domain and an effort)", n.Tasks)
	count("duplicate rows merged", n.Duplicates)
	count("asks", n.Asks)
	count("asks without an answer", n.Failed)
	count("candidates", n.Candidates)
	count("accepted", n.Accepted)
	if f := n.Filtered; f != nil {
		count("tasks left out: duplicates", f.Duplicates)
		count("tasks left out: near duplicates", f.NearDuplicates)
		count("tasks left out: contaminated", f.Contaminated)
		for _, flag := range sortedKeys(f.Flags) {
			count("tasks flagged "+inline(flag), f.Flags[flag])
		}
	}
	b.WriteString("\n")
	cardContamination(b, m)
	if len(m.Rejected) == 0 {
		return
	}
	b.WriteString("| reject reason | candidates |\n|---|---|\n")
	for _, reason := range sortedKeys(m.Rejected) {
		fmt.Fprintf(b, "| %s | %d |\n", inline(reason), m.Rejected[reason])
	}
	b.WriteString("\n")
}

// cardContamination says which evaluation sets the prompts were held against.
func cardContamination(b *strings.Builder, m *catalog.Manifest) {
	if len(m.EvaluationSets) == 0 {
		b.WriteString("The prompts were not held against evaluation sets.\n\n")
		return
	}
	b.WriteString("The prompts were held against these evaluation sets:\n\n| evaluation set | rows | SHA-256 |\n|---|---|---|\n")
	for _, s := range m.EvaluationSets {
		fmt.Fprintf(b, "| %s | %d | `%.12s…` |\n", inline(s.Path), s.Rows, s.SHA256)
	}
	b.WriteString("\n")
	if f := m.Counts.Filtered; f != nil && len(f.Sets) > 0 {
		b.WriteString("| evaluation set | tasks that hold an item of it |\n|---|---|\n")
		for _, set := range sortedKeys(f.Sets) {
			fmt.Fprintf(b, "| %s | %d |\n", inline(set), f.Sets[set])
		}
		b.WriteString("\n")
	}
}

// cardComparison is the version's report in a table.
func cardComparison(b *strings.Builder, r *report.Report) {
	if r == nil || len(r.Cells) == 0 {
		return
	}
	b.WriteString("## Teachers compared\n\nOver the answers of this build; shares of the judged answers that pass have their 95 % interval (Wilson). The version's report has the rest.\n\n")
	b.WriteString("| teacher | domain | effort | asks | answers | pass | accepted | rows | USD |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.Cells {
		pass, cost := "", ""
		if p := c.PassOfJudged; p != nil {
			pass = fmt.Sprintf("%.1f %% (%.1f to %.1f) of %d", 100*p.Value, 100*p.Low, 100*p.High, p.Of)
		}
		if c.CostUSD != nil {
			cost = fmt.Sprintf("%.4f", *c.CostUSD)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %d | %s | %d | %d | %s |\n", inline(c.Teacher), inline(c.Domain), inline(c.Effort), c.Asks, c.Answers, pass, c.Accepted, c.Selected, cost)
	}
	b.WriteString("\n")
}

// cardLineage says where the version stands.
func cardLineage(b *strings.Builder, m *catalog.Manifest, p *plan) {
	b.WriteString("## Lineage\n\n| | |\n|---|---|\n")
	row := func(what, value string) {
		if value != "" {
			fmt.Fprintf(b, "| %s | %s |\n", what, value)
		}
	}
	if v := p.opt.Version; v.Number > 0 {
		row("version", fmt.Sprintf("%s, %d", m.Dataset, v.Number))
		row("manifest", code("sha256:"+v.ManifestSHA256))
	}
	if m.Parent > 0 {
		row("version before", strconv.FormatInt(m.Parent, 10))
	}
	row("build", code(m.BuildID))
	row("published", m.CreatedAt.UTC().Format("2006-01-02 15:04:05 MST"))
	row("made by", inline(m.Tool))
	if m.RecipeDigest != "" {
		row("recipe", code("sha256:"+m.RecipeDigest))
	}
	const most = 20
	for i, s := range m.Sources {
		if i == most {
			row("and", fmt.Sprintf("%d more files", len(m.Sources)-most))
			break
		}
		row("source", fmt.Sprintf("%s, `sha256:%.12s…`", inline(s.Path), s.SHA256))
	}
	if i := m.Imported; i != nil && i.From != nil {
		row("exported before", fmt.Sprintf("view %s of %s, version %d", code(i.From.View), inline(i.From.Dataset), i.From.Version))
	}
	if len(m.Purged) > 0 {
		row("purges", fmt.Sprintf("%d took rows from it since", len(m.Purged)))
	}
}
