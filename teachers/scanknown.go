package teachers

// inside starts a cursor on a value that an outer cursor has found to be JSON.
// What it steps over is not looked at again but for where it ends, so that a
// value in the depth of a long response is not checked once for each level
// above it.
func inside(value []byte) cursor {
	c := walk(value)
	c.known = true
	return c
}

// endOfKnown is the index after the value that starts at b[i], which is known
// to be JSON. On anything else it ends too, somewhere within b.
func endOfKnown(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		end, _ := skipString(b, i)
		return end
	case '{', '[':
		return endOfComposite(b, i)
	}
	for i < len(b) && isLiteral(b[i]) {
		i++
	}
	return i
}

func endOfComposite(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i, _ = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(b)
}
