package teachers

import "strings"

// maxBatchID bounds the ids that an endpoint gives to files and batches: they
// are kept with every row, and name what was paid for.
const maxBatchID = 512

// secrets are what nothing of a batch API may hold.
func (b *BatchClient) secrets() secrets {
	key, _ := b.client.key() // without one there is none to hide
	return b.client.hidden(key)
}

// check refuses batches that an endpoint describes in words which cannot be
// kept, and makes the rest of its words fit for a message.
func (b *BatchClient) check(all ...*Batch) *Error {
	hidden := b.secrets()
	for _, batch := range all {
		if err := b.checkID("batch", batch.ID, hidden); err != nil {
			return err
		}
		for _, f := range batch.Files {
			if err := b.checkID("file", f.ID, hidden); err != nil {
				return err
			}
		}
		batch.Word = hidden.excerpt(batch.Word)
	}
	return nil
}

// checkID refuses what is no id: one is short and printable, and no key.
func (b *BatchClient) checkID(of, id string, hidden secrets) *Error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case id == "", len(id) > maxBatchID, strings.ContainsFunc(id, odd):
		return &Error{Class: ClassMalformed, Excerpt: "the endpoint names a " + of + " by what is no id: one has 1 to 512 printable characters"}
	case hidden.in(id):
		return &Error{Class: ClassMalformed, Excerpt: "the endpoint repeats a key of this machine as the id of a " + of + "; look why it does"}
	}
	return nil
}

// cleanRow takes secrets out of a row, as out of an answer that came online. A
// row of which they cannot be taken out holds no answer, and nothing of it may
// be kept.
func (s secrets) cleanRow(row *BatchRow) {
	if row.Body != nil && s.sieve() != nil {
		answer, _ := Parse(row.Format, row.Body)
		body, _, ok := s.withoutSecrets(row.Format, row.Body, answer)
		if row.Body = body; !ok {
			row.Failure, row.Body, row.Raw = keyInAnswer(row.Status), nil, nil
		}
	}
	if raw, found := s.wholeOnes(row.Raw); found {
		row.Raw = s.acrossPieces(raw, true)
	}
	row.CustomID = string(s.answer([]byte(row.CustomID)))
	row.RequestID = s.replace(row.RequestID)
}
