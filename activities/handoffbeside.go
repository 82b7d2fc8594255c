package activities

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxBeside bounds a file that a view writes beside its data for trainers.
const maxBeside = 4 << 20

// besideNames are the files beside a view's data that renderers read.
var besideNames = []string{"teacher_map.json", "compression_config.yaml"}

// besideView reads those of the files that an exported view has.
func besideView(dir string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range besideNames {
		text, err := readBounded(filepath.Join(dir, name), maxBeside)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("read the view's %s: %w", name, err)
		default:
			out[name] = text
		}
	}
	return out, nil
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("has more than %d bytes", most)
	}
	return text, err
}
