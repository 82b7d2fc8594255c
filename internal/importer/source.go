package importer

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// A Source is the files of a dataset that exists, with the split of each.
type Source struct {
	Name   string // as the user names it
	Files  []SplitFile
	Config string // of a hub folder's card, "" for none
	Card   Card
	// Export is what an export of ours says of itself, nil for other sources.
	Export *Exported
	// SHA256 is of a line "name digest" for each file, hex.
	SHA256 string
	Bytes  int64
	// Notes are what the user should know of how the files were chosen.
	Notes []string
}

// A SplitFile is one file, of one split: train or test.
type SplitFile struct {
	sources.File
	Split string
	Path  string // below the source, with slashes
}

// A Card is what a hub folder's README.md says.
type Card struct {
	Licence  string
	Language []string
}

// An Exported is what manifest.json of an export says.
type Exported struct {
	Dataset string `json:"dataset"`
	Version int64  `json:"version"`
	BuildID string `json:"build_id"`
	View    string `json:"view"`
}

// A Choice is which part of a source to read.
type Choice struct {
	Config string // of a hub folder; "" is the default one
	Split  string // of the source; "" is all of them
}

// Bounds of what is read of a folder besides its data.
const (
	maxCard     = 1 << 20
	maxManifest = 64 << 20
)

// besides are files of folders that hold no rows.
var besides = []string{"manifest.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "compression_config.json", "teacher_map.json"}

// Open finds the files of a source: a file, a glob, a folder, a hub folder with
// a README.md, or an s3:// URL. It reads every file once, for its digest.
func Open(ctx context.Context, finder sources.Finder, name string, choice Choice) (*Source, error) {
	s := &Source{Name: name}
	dir := name
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(finder.Dir, dir)
	}
	info, err := os.Stat(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(name, "://") {
		return nil, fmt.Errorf("%w %s: %w", ErrUsage, name, err)
	}
	if err == nil && info.IsDir() {
		if err := s.openFolder(ctx, finder, dir, choice); err != nil {
			return nil, err
		}
		return s, s.finish(choice)
	}
	if choice.Config != "" {
		return nil, fmt.Errorf("%w %s: only a folder with a README.md has configs", ErrUsage, name)
	}
	files, err := finder.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		s.add(f, f.Name, splitOfName(f.Name))
	}
	return s, s.finish(choice)
}

func (s *Source) add(f sources.File, path, split string) {
	s.Files = append(s.Files, SplitFile{File: f, Split: split, Path: path})
}

// splits are the split of each file, in order.
func (s *Source) splits() []string {
	out := make([]string, len(s.Files))
	for i := range s.Files {
		out[i] = s.Files[i].Split
	}
	return out
}

// finish holds the files to the choice, names their splits and sums them up.
func (s *Source) finish(choice Choice) error {
	names := s.splits()
	if choice.Split != "" {
		s.Files = slices.DeleteFunc(s.Files, func(f SplitFile) bool { return f.Split != choice.Split })
		if len(s.Files) == 0 {
			slices.Sort(names)
			return fmt.Errorf("%w %s: it has no split %.40q; it has: %s", ErrUsage, s.Name, choice.Split, strings.Join(slices.Compact(names), ", "))
		}
	}
	if len(s.Files) == 0 {
		return fmt.Errorf("%w %s: it holds no file of rows; those that are read are %s", ErrUsage, s.Name, sources.Formats)
	}
	h := sha256.New()
	renamed := map[string]string{}
	for i := range s.Files {
		f := &s.Files[i]
		fmt.Fprintf(h, "%q %s\n", f.Path, f.SHA256)
		s.Bytes += f.Size
		if split := ourSplit(f.Split); split != f.Split {
			renamed[f.Split], f.Split = split, split
		}
	}
	for _, from := range sortedKeys(renamed) {
		s.Notes = append(s.Notes, fmt.Sprintf("split %s becomes %s", from, renamed[from]))
	}
	s.SHA256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ourSplit is the split of a version for one of a source: what is held out is
// test, all else is train.
func ourSplit(name string) string {
	lower := strings.ToLower(name)
	for _, held := range []string{"test", "validation", "valid", "val", "dev", "eval", "heldout", "held_out"} {
		if lower == held || strings.HasPrefix(lower, held+"_") || strings.HasSuffix(lower, "_"+held) {
			return datasets.TableTest
		}
	}
	return datasets.TableTrain
}

var splitInName = regexp.MustCompile(`(?i)(?:^|[^a-z])(train|test|validation|valid|val|dev|eval)(?:[^a-z]|$)`)

// splitOfName guesses the split by a file's name, as the datasets library does.
func splitOfName(name string) string {
	if found := splitInName.FindStringSubmatch(path.Base(name)); found != nil {
		return strings.ToLower(found[1])
	}
	return datasets.TableTrain
}

// openFolder takes what the card of a hub folder names, else the folder data,
// else every file of rows.
func (s *Source) openFolder(ctx context.Context, finder sources.Finder, dir string, choice Choice) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrUsage, s.Name, err)
	}
	defer root.Close()
	if s.Export, err = readExported(root); err != nil {
		return fmt.Errorf("%w %s: %w", ErrUsage, s.Name, err)
	}
	configs, err := s.readCard(root)
	if err != nil {
		return fmt.Errorf("%w %s: README.md: %w", ErrUsage, s.Name, err)
	}
	all, err := relativeFiles(ctx, finder, dir)
	if err != nil {
		return err
	}
	config, err := chosen(configs, choice.Config)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrUsage, s.Name, err)
	}
	if config != nil {
		s.Config = config.Name
		return s.addConfig(config, all)
	}
	if slices.ContainsFunc(all, func(f SplitFile) bool { return strings.HasPrefix(f.Path, "data/") }) {
		all = slices.DeleteFunc(all, func(f SplitFile) bool { return !strings.HasPrefix(f.Path, "data/") })
	}
	formats := map[string]bool{}
	for _, f := range all {
		formats[strings.TrimSuffix(path.Ext(strings.TrimSuffix(f.Path, ".gz")), ".")] = true
		s.add(f.File, f.Path, splitOfName(f.Path))
	}
	if len(formats) > 1 {
		return fmt.Errorf("%w %s: it holds files of several formats (%s), which may be the same rows twice; name those to read, such as %s", ErrUsage, s.Name,
			strings.Join(sortedKeys(formats), ", "), path.Join(s.Name, "*"+sortedKeys(formats)[0]))
	}
	if len(all) == 0 && len(arrowFiles(root)) > 0 {
		return fmt.Errorf("%w %s: it was written by save_to_disk, as Arrow files; write it anew with ds.to_parquet(path)", ErrUsage, s.Name)
	}
	return nil
}

func arrowFiles(root *os.Root) []string {
	names, _ := fs.Glob(root.FS(), "*.arrow")
	more, _ := fs.Glob(root.FS(), "*/*.arrow")
	return append(names, more...)
}

// relativeFiles are the files of rows below a folder, with their paths there.
func relativeFiles(ctx context.Context, finder sources.Finder, dir string) ([]SplitFile, error) {
	found, err := finder.Find(ctx, dir)
	if errors.Is(err, sources.ErrNoFiles) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []SplitFile
	for _, f := range found {
		name, err := filepath.Rel(dir, f.Path)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(besides, path.Base(filepath.ToSlash(name))) {
			out = append(out, SplitFile{File: f, Path: filepath.ToSlash(name)})
		}
	}
	return out, nil
}

// A hubConfig is an entry of a card's configs.
type hubConfig struct {
	Name    string `yaml:"config_name"`
	Default bool   `yaml:"default"`
	Files   any    `yaml:"data_files"`
	Dir     string `yaml:"data_dir"`
}

// readCard reads the YAML of a hub folder's README.md.
func (s *Source) readCard(root *os.Root) ([]hubConfig, error) {
	text, err := readFile(root, "README.md", maxCard)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	front := frontMatter(text)
	if front == "" {
		return nil, nil
	}
	card, err := parseCard(front)
	if err != nil {
		return nil, fmt.Errorf("its YAML can't be read: %s; mend it, or name the data files instead of the folder", firstLine(err.Error()))
	}
	s.Card.Licence = strings.Join(textList(card.License), ", ")
	s.Card.Language = textList(card.Language)
	return card.Configs, nil
}

func frontMatter(text string) string {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return ""
	}
	front, _, ok := strings.Cut(rest, "\n---")
	if !ok {
		return ""
	}
	return front + "\n"
}

func textList(v any) []string {
	switch t := v.(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, e := range t {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// chosen is the config of that name, the default one for "", nil where there
// are none.
func chosen(configs []hubConfig, name string) (*hubConfig, error) {
	var names []string
	for i := range configs {
		names = append(names, configs[i].Name)
		if configs[i].Name == name {
			return &configs[i], nil
		}
	}
	switch {
	case name != "" && len(configs) == 0:
		return nil, fmt.Errorf("it has no config %.40q: its README.md declares none", name)
	case name != "":
		return nil, fmt.Errorf("it has no config %.40q; it has: %s", name, strings.Join(names, ", "))
	case len(configs) == 0:
		return nil, nil
	case len(configs) == 1:
		return &configs[0], nil
	}
	for i := range configs {
		if configs[i].Default || configs[i].Name == "default" {
			return &configs[i], nil
		}
	}
	return nil, fmt.Errorf("it has several configs (%s); name one with --config", strings.Join(names, ", "))
}

// addConfig takes the files that a config's data_files name: a pattern, a list
// of them, or a list of {split, path}.
func (s *Source) addConfig(c *hubConfig, all []SplitFile) error {
	type part struct {
		split    string
		patterns []string
	}
	var parts []part
	switch t := c.Files.(type) {
	case nil:
		parts = append(parts, part{"", []string{path.Join(c.Dir, "**")}})
	case string:
		parts = append(parts, part{"", []string{t}})
	case []any:
		for _, e := range t {
			switch e := e.(type) {
			case string:
				parts = append(parts, part{"", []string{e}})
			case map[string]any:
				split, _ := e["split"].(string)
				parts = append(parts, part{split, textList(e["path"])})
			}
		}
	case map[string]any:
		for _, split := range sortedKeys(t) {
			parts = append(parts, part{split, textList(t[split])})
		}
	}
	for _, p := range parts {
		for _, pattern := range p.patterns {
			match, err := hubPattern(pattern)
			if err != nil {
				return fmt.Errorf("%w %s: README.md: config %s: %w", ErrUsage, s.Name, c.Name, err)
			}
			found := 0
			for _, f := range all {
				if !match.MatchString(f.Path) {
					continue
				}
				found++
				split := p.split
				if split == "" {
					split = splitOfName(f.Path)
				}
				s.add(f.File, f.Path, split)
			}
			if found == 0 {
				return fmt.Errorf("%w %s: README.md: config %s names %.80q, and there is no such file of rows", ErrUsage, s.Name, c.Name, pattern)
			}
		}
	}
	slices.SortStableFunc(s.Files, func(a, b SplitFile) int {
		return cmp.Or(strings.Compare(a.Split, b.Split), strings.Compare(a.Path, b.Path))
	})
	s.Files = slices.CompactFunc(s.Files, func(a, b SplitFile) bool { return a.Path == b.Path && a.Split == b.Split })
	return nil
}

// hubPattern turns a card's glob into an expression over paths below the
// folder: * within a folder, ** across them.
func hubPattern(glob string) (*regexp.Regexp, error) {
	if len(glob) > 500 {
		return nil, errors.New("a path of more than 500 bytes")
	}
	quoted := regexp.QuoteMeta(strings.TrimPrefix(glob, "./"))
	expr := strings.NewReplacer(`\*\*/`, `(?:[^/]+/)*`, `\*\*`, `.*`, `\*`, `[^/]*`, `\?`, `[^/]`).Replace(quoted)
	re, err := regexp.Compile("^" + expr + "$")
	if err != nil {
		return nil, fmt.Errorf("the path %.80q is no pattern", glob)
	}
	return re, nil
}

// readExported reads manifest.json of an export of ours; nil where there is
// none.
func readExported(root *os.Root) (*Exported, error) {
	text, err := readFile(root, "manifest.json", maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m struct {
		Format int `json:"stillhouse_export"`
		Exported
	}
	if json.Unmarshal([]byte(text), &m) != nil || m.Format < 1 {
		return nil, nil
	}
	return &m.Exported, nil
}

func readFile(root *os.Root, name string, most int64) (string, error) {
	info, err := root.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return "", fs.ErrNotExist
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(bufio.NewReader(f), most+1))
	if int64(len(text)) > most {
		return "", fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return string(text), err
}
