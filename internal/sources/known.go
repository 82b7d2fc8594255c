package sources

// KnownFormat tells whether a file of that name can be read.
func KnownFormat(name string) bool {
	_, err := formatOf(name)
	return err == nil
}
