package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

func parquetRows(ctx context.Context, f File, o Options, yield yieldFunc) error {
	if o.OpenParquet == nil || f.OpenAt == nil {
		return errors.New("there is no reader for Parquet here; convert the file to .jsonl")
	}
	r, closeFile, err := f.OpenAt(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = closeFile() }()
	e := emitter{ctx: ctx, name: f.Name, yield: yield}
	n := 0
	for values, err := range o.OpenParquet(ctx, r, f.Size) {
		n++
		var reason *RowError
		if err != nil && !errors.As(err, &reason) {
			return err
		}
		if err := parquetRow(&e, n, values, reason, o.MaxLine); err != nil {
			return err
		}
	}
	return nil
}

func parquetRow(e *emitter, n int, values map[string]any, reason *RowError, most int) error {
	if reason != nil {
		return e.row(rowWhere(e.name, n), nil, errors.New(reason.Reason))
	}
	plain, err := normal(values)
	if err != nil {
		return e.row(rowWhere(e.name, n), nil, err)
	}
	if sizeOf(plain) > most {
		return e.row(rowWhere(e.name, n), nil, fmt.Errorf("the row is larger than %d bytes; shorten it", most))
	}
	return e.row(rowWhere(e.name, n), plain.(map[string]any), nil)
}

// sizeOf is about the bytes of a value as JSON. A file of a few kilobytes can
// hold a large text a million times.
func sizeOf(v any) int {
	n := 2
	switch t := v.(type) {
	case string:
		n += len(t)
	case json.Number:
		n += len(t)
	case []any:
		for i := range t {
			n += sizeOf(t[i])
		}
	case map[string]any:
		for k := range t {
			n += len(k) + 3 + sizeOf(t[k])
		}
	}
	return n
}

// normal turns a column's value into what a JSON file would have held.
func normal(v any) (any, error) {
	switch t := v.(type) {
	case nil, bool, json.Number:
		return v, nil
	case string:
		if !utf8.ValidString(t) {
			return nil, errNotUTF8
		}
		return t, nil
	case []byte:
		return normal(string(t))
	case time.Time:
		return t.UTC().Format(time.RFC3339Nano), nil
	case int:
		return json.Number(strconv.Itoa(t)), nil
	case int32:
		return json.Number(strconv.FormatInt(int64(t), 10)), nil
	case int64:
		return json.Number(strconv.FormatInt(t, 10)), nil
	case uint32:
		return json.Number(strconv.FormatUint(uint64(t), 10)), nil
	case uint64:
		return json.Number(strconv.FormatUint(t, 10)), nil
	case float32:
		return number(float64(t), 32), nil
	case float64:
		return number(t, 64), nil
	case []any:
		return normalList(t)
	case map[string]any:
		return normalMap(t)
	}
	return nil, errors.New("has a column of a type that is not read; convert the file to .jsonl")
}

// number is null for what JSON has no number for.
func number(f float64, bits int) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, bits))
}

func normalList(list []any) (any, error) {
	out := make([]any, len(list))
	for i := range list {
		v, err := normal(list[i])
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func normalMap(m map[string]any) (any, error) {
	out := make(map[string]any, len(m))
	for k := range m {
		v, err := normal(m[k])
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}
