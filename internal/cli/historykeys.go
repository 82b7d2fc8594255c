package cli

import (
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/internal/codec"
)

// Variables of the keys that encrypt what goes into Temporal's histories.
const (
	historyKeyEnv  = "STILLHOUSE_CODEC_KEY"
	historyKeyFile = "STILLHOUSE_CODEC_KEY_FILE"
	mostKeyText    = 4 << 10 // bytes of all keys
)

// loadHistoryKeys reads the keys. Without the variables there are none, and
// histories are written as they are.
func (a *app) loadHistoryKeys() error {
	text, from := a.env(historyKeyEnv), historyKeyEnv
	if file := a.env(historyKeyFile); file != "" {
		if text != "" {
			return usage("%s and %s are both set; leave one out", historyKeyEnv, historyKeyFile)
		}
		from = historyKeyFile
		read, err := readSmall(from, file, mostKeyText, "keys")
		if err != nil {
			return err
		}
		text = string(read)
	}
	keys, err := codec.Parse(text)
	if err != nil {
		return usage("%s: %v", from, err)
	}
	if _, set := a.lookup(from); set && !keys.Seals() {
		// Somebody wants histories encrypted, and they would not be.
		return usage("%s holds no key; make one with: openssl rand -base64 32", from)
	}
	a.history = *keys
	return nil
}

// payloads reads what is in histories, memos and heartbeats.
func (a *app) payloads() converter.DataConverter {
	return a.history.Converter()
}

// encrypt makes a client, and the workers that it has, seal what they write
// where there is a key, and say so plainly where a key is missing.
func (a *app) encrypt(o *client.Options) {
	o.DataConverter = a.payloads()
	o.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: o.DataConverter,
		// Messages of failures name teachers, files and addresses.
		EncodeCommonAttributes: a.history.Seals(),
	})
}

// historyKey says which key encrypts, for what people read.
func (a *app) historyKey() string {
	if !a.history.Seals() {
		return ""
	}
	return fmt.Sprintf("\nhistories are encrypted with key %s", a.history.ID())
}
