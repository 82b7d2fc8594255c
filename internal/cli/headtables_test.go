package cli

import (
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// Every table that a version can have is shown, and takes conditions over each
// of its columns.
func TestHeadKnowsEveryTableAndColumn(t *testing.T) {
	for _, table := range parquetio.Tables() {
		for _, column := range table.Columns {
			if _, err := headOf(headFlags{table: table.Name, where: column.Name + " == nil || " + column.Name + " != nil"}); err != nil {
				t.Errorf("%s, column %s: %v", table.Name, column.Name, err)
			}
		}
	}
}
