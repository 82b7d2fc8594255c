package cli

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// imagesFact names a row's images by kind and by where their bytes are.
func imagesFact(list []datasets.Image) string {
	var out []string
	for _, im := range list {
		out = append(out, fmt.Sprintf("%s %s", im.MediaType, im.Key))
	}
	return strings.Join(out, ", ")
}
