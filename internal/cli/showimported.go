package cli

import "fmt"

// imported prints where a version came from that no recipe made, and tells
// whether it is one.
func (d *description) imported() bool {
	i := d.manifest.Imported
	if i == nil {
		return false
	}
	config := ""
	if i.Config != "" {
		config = ", config " + i.Config
	}
	d.line("imported", "%s%s (sha256:%.12s), shape %s", i.Source, config, i.SHA256, i.Shape)
	d.line("", "%s rows read%s%s%s", grouped(i.Rows), some(i.BadRows, ", %s could not be used"), some(i.Duplicates, ", %s duplicates left out"),
		some(i.Moved, ", %s moved from test to train"))
	fields := ""
	for n, field := range sortedKeys(i.Fields) {
		if n > 0 {
			fields += " "
		}
		fields += field + "=" + i.Fields[field]
	}
	d.line("", "%s", fields)
	if f := i.From; f != nil {
		of := f.Dataset
		if f.Version > 0 {
			of = fmt.Sprintf("%s@%d", f.Dataset, f.Version)
		}
		d.line("", "an export of %s, view %s", of, f.View)
	}
	return true
}
