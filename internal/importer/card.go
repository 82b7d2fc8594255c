package importer

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a card's YAML, which is anybody's: far above what cards hold, and
// low enough that the parser's stack and memory stay small.
const (
	maxCardDepth  = 64      // of brackets, and of dashes in one line
	maxCardTokens = 400_000 // about what 1 MiB of a card with many configs has
)

// A cardYAML is what is read of the YAML of a card.
type cardYAML struct {
	Configs  []hubConfig `yaml:"configs"`
	License  any         `yaml:"license"`
	Language any         `yaml:"language"`
}

func parseCard(front string) (card cardYAML, err error) {
	// The library has had panics on broken input.
	defer func() {
		if recover() != nil {
			err = errors.New("it is not valid YAML")
		}
	}()
	if err := checkCard(lexer.Tokenize(front)); err != nil {
		return card, err
	}
	return card, yaml.Unmarshal([]byte(front), &card)
}

// checkCard bounds the nesting before anything recursive walks it, and refuses
// anchors, with which a small card could unfold without end.
func checkCard(tokens token.Tokens) error {
	if len(tokens) > maxCardTokens {
		return errors.New("it holds too much")
	}
	flow, line, dashes := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		case token.AnchorType, token.AliasType:
			return fmt.Errorf("line %d has an anchor or what names one; write them out", line)
		}
		if flow > maxCardDepth || dashes > maxCardDepth {
			return fmt.Errorf("line %d is nested too deeply", line)
		}
	}
	return nil
}
