package recipe

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// A field is one key of a section, as the struct's tags declare it:
//
//	yaml      the key; "-" is no key, ",inline" takes the keys that no other field has
//	required  "true": absent or empty is an error
//	default   what an absent key means
//	enum      the words that a text may be, or the keys of a map
//	min, max  the range of a number, or of the numbers of a map
//	pattern   the regular expression that a text matches
type field struct {
	key      string
	index    int
	name     string // in Go, to find its comment
	typ      reflect.Type
	required bool
	def      string
	hasDef   bool
	enum     []string
	min, max string // "" is no bound
	pattern  string
}

// A section is a struct's keys.
type section struct {
	fields []field
	inline int // index of the field that takes all other keys, or -1
}

var sections sync.Map // of reflect.Type to *section

func sectionOf(t reflect.Type) *section {
	if s, ok := sections.Load(t); ok {
		return s.(*section)
	}
	s := &section{inline: -1}
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("yaml")
		switch tag {
		case "", "-":
			continue
		case ",inline":
			s.inline = i
			continue
		}
		f := field{key: tag, index: i, name: sf.Name, typ: sf.Type}
		f.required = sf.Tag.Get("required") == "true"
		f.def, f.hasDef = sf.Tag.Lookup("default")
		if e := sf.Tag.Get("enum"); e != "" {
			f.enum = strings.Split(e, ",")
		}
		f.min, f.max, f.pattern = sf.Tag.Get("min"), sf.Tag.Get("max"), sf.Tag.Get("pattern")
		s.fields = append(s.fields, f)
	}
	got, _ := sections.LoadOrStore(t, s)
	return got.(*section)
}

func (s *section) field(key string) *field {
	for i := range s.fields {
		if s.fields[i].key == key {
			return &s.fields[i]
		}
	}
	return nil
}

func (s *section) keys() []string {
	out := make([]string, len(s.fields))
	for i := range s.fields {
		out[i] = s.fields[i].key
	}
	return out
}

// Types that are written as something else than their Go shape.
var (
	typeDuration   = reflect.TypeFor[time.Duration]()
	typeByteSize   = reflect.TypeFor[ByteSize]()
	typeDate       = reflect.TypeFor[Date]()
	typeWhen       = reflect.TypeFor[*When]()
	typeRoute      = reflect.TypeFor[Route]()
	typeSamples    = reflect.TypeFor[Samples]()
	typeStep       = reflect.TypeFor[FilterStep]()
	typePromptStep = reflect.TypeFor[PromptStep]()
	typeProfile    = reflect.TypeFor[Profile]()
)
