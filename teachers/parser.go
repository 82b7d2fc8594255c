package teachers

// ParserVersion names what [Parse] makes of a raw response. Candidates hold it,
// so that a dataset tells which answers an older parser read; `stillhouse
// reparse` reads them again. A test over recorded responses fails where what
// is read changes and the version does not.
const ParserVersion = "1"
