package activities

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

const (
	// parts is how many parts the prompts are sorted in, by the first byte of
	// their id. One part is in memory at a time: 40,000 prompts of ten million.
	parts = 256
	// spillBytes bounds the prompts that are held before they go to disk.
	spillBytes = 48 << 20
)

// partitions sort the prompts of all sources by id, in memory while they are
// few and on disk from then on.
type partitions struct {
	dir  string
	most int64 // bytes in memory
	held int64
	list [parts]partition
}

type partition struct {
	items []plannedItem
	file  *os.File
	out   *bufio.Writer
}

// plannedItem is a task of a row, with its place in the sources' order.
type plannedItem struct {
	Row      int64        `json:"r"`
	Seq      int64        `json:"s"`
	Source   int          `json:"f,omitempty"` // index of the recipe's prompts
	PromptID string       `json:"p"`
	Item     sources.Item `json:"i"`
}

func (p *partitions) add(item plannedItem) error {
	part := &p.list[hexByte(item.PromptID)]
	part.items = append(part.items, item)
	if p.held += int64(itemBytes(&item.Item)); p.held <= p.most {
		return nil
	}
	p.held = 0
	for i := range p.list {
		if err := p.list[i].spill(filepath.Join(p.dir, fmt.Sprintf("prompts-%02x", i))); err != nil {
			return fmt.Errorf("sort the prompts on disk: %w", err)
		}
	}
	return nil
}

func (p *partitions) close() {
	for i := range p.list {
		if f := p.list[i].file; f != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
}

// itemBytes is about what an item holds in memory.
func itemBytes(item *sources.Item) int {
	return 400 + promptBytes(&item.Prompt) + textBytes(item.Gold) + textBytes(item.Tests) + len(item.Meta) + len(item.Group)
}

func promptBytes(p *chat.Prompt) int {
	n := 400 + len(p.System) + len(p.Tools) + 120*len(p.Images)
	for i := range p.Messages {
		m := &p.Messages[i]
		n += 100 + textBytes(m.Content) + textBytes(m.ReasoningContent)
		for j := range m.ToolCalls {
			n += 64 + len(m.ToolCalls[j].Name) + len(m.ToolCalls[j].Arguments)
		}
	}
	return n
}

func textBytes(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s)
}

func hexByte(id string) int {
	nibble := func(c byte) int {
		if c >= 'a' {
			return int(c-'a') + 10
		}
		return int(c - '0')
	}
	return nibble(id[0])<<4 | nibble(id[1])
}

// spill moves what is in memory to the partition's file.
func (part *partition) spill(path string) error {
	if len(part.items) == 0 {
		return nil
	}
	if part.file == nil {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		part.file, part.out = f, bufio.NewWriterSize(f, 1<<14)
	}
	enc := json.NewEncoder(part.out)
	enc.SetEscapeHTML(false)
	for i := range part.items {
		if err := enc.Encode(&part.items[i]); err != nil {
			return err
		}
	}
	part.items = nil
	return nil
}

// each visits every item, in no order that matters, and keeps what it held.
func (part *partition) each(visit func(*plannedItem) error) error {
	for i := range part.items {
		if err := visit(&part.items[i]); err != nil {
			return err
		}
	}
	if part.file == nil {
		return nil
	}
	if err := part.out.Flush(); err != nil {
		return err
	}
	if _, err := part.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	dec := json.NewDecoder(bufio.NewReaderSize(part.file, 1<<20))
	for {
		var item plannedItem
		if err := dec.Decode(&item); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read back planned prompts: %w", err)
		}
		if err := visit(&item); err != nil {
			return err
		}
	}
}

// take gives all items, sorted by prompt, domain, effort and place.
func (part *partition) take() ([]plannedItem, error) {
	var items []plannedItem
	if part.file == nil {
		items = part.items
	} else if err := part.each(func(item *plannedItem) error {
		items = append(items, *item)
		return nil
	}); err != nil {
		return nil, err
	}
	part.items = nil
	slices.SortFunc(items, func(a, b plannedItem) int {
		return cmp.Or(strings.Compare(a.PromptID, b.PromptID),
			strings.Compare(a.Item.Domain, b.Item.Domain), strings.Compare(a.Item.Effort, b.Item.Effort),
			cmp.Compare(a.Seq, b.Seq))
	})
	return items, nil
}

// groups are the groups of prompts that must share a split because some prompt
// is in both. A group that shares no prompt with another is not in here.
type groups struct {
	seen   bool // some prompt has a group
	parent map[string]string
}

// join makes two groups one. Its name is the first one in order, so that it
// does not depend on the order of the rows.
func (g *groups) join(a, b string) {
	if a, b = g.root(a), g.root(b); a == b {
		return
	}
	if b < a {
		a, b = b, a
	}
	if g.parent == nil {
		g.parent = map[string]string{}
	}
	g.parent[b] = a
}

// root is the name under which a group draws its split.
func (g *groups) root(name string) string {
	for {
		up, ok := g.parent[name]
		if !ok {
			return name
		}
		if top, ok := g.parent[up]; ok {
			g.parent[name] = top // halves the path
		}
		name = up
	}
}
