package catalog

// An Imported says how a version came from a dataset that existed before.
type Imported struct {
	Source string `json:"source"`           // as the user named it
	SHA256 string `json:"sha256"`           // over a line "path digest" of each of its files
	Config string `json:"config,omitempty"` // of a hub folder
	// Shape of its rows, and Fields where they hold what, by field.
	Shape  string            `json:"shape"`
	Fields map[string]string `json:"fields"`
	// Importer is the version of the importer, which rises when the same files
	// become other rows.
	Importer   int   `json:"importer"`
	Rows       int64 `json:"rows"`                 // that were read
	BadRows    int64 `json:"bad_rows"`             // of them left out, for none could be used
	Duplicates int64 `json:"duplicates"`           // of them left out, for the same was there before
	Moved      int64 `json:"moved_rows,omitempty"` // of the test split, for train has their prompt
	// From is the version whose export the source is.
	From *ImportedFrom `json:"from,omitempty"`
}

// An ImportedFrom names the version that was exported.
type ImportedFrom struct {
	Dataset string `json:"dataset"`
	Version int64  `json:"version,omitempty"`
	BuildID string `json:"build_id"`
	View    string `json:"view"`
}
