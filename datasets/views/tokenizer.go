package views

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxTokenizer bounds a tokenizer.json; the largest in use are of 35 MB.
const maxTokenizer = 256 << 20

// ReadTokenizer reads a tokenizer.json, as the tokenizers library writes it: its
// digest, in hex, and the size of its vocabulary, which is one more than the
// highest id of its tokens.
func ReadTokenizer(r io.Reader) (digest string, vocabulary int, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxTokenizer+1))
	if err != nil {
		return "", 0, err
	}
	if len(text) > maxTokenizer {
		return "", 0, fmt.Errorf("it is larger than %d bytes", maxTokenizer)
	}
	var file struct {
		Model struct {
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
		Added []struct {
			ID int64 `json:"id"`
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return "", 0, fmt.Errorf("it is no tokenizer.json: %w", err)
	}
	highest := int64(-1)
	for _, t := range file.Added {
		highest = max(highest, t.ID)
	}
	var ids map[string]int64
	var pieces []json.RawMessage // of unigram models: an id is the place
	switch {
	case json.Unmarshal(file.Model.Vocab, &ids) == nil && len(ids) > 0:
		for _, id := range ids {
			highest = max(highest, id)
		}
	case json.Unmarshal(file.Model.Vocab, &pieces) == nil && len(pieces) > 0:
		highest = max(highest, int64(len(pieces))-1)
	default:
		return "", 0, errors.New("it is no tokenizer.json: it has no model.vocab")
	}
	if highest < 0 || highest >= maxVocabulary {
		return "", 0, fmt.Errorf("its highest token id is %d; at most %d can be packed", highest, maxVocabulary-1)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), int(highest) + 1, nil
}
