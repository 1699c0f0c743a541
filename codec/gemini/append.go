package gemini

// appendComma appends the comma that is due unless the last byte opens an object or a list.
func appendComma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		return dst
	}
	return append(dst, ',')
}

func appendName(dst []byte, name string) []byte {
	dst = append(appendComma(dst), '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendRaw(dst []byte, name string, value []byte) []byte {
	if value == nil {
		return dst
	}
	return append(appendName(dst, name), value...)
}
