package scan

// ReplaceMember copies an object with another value for one of its members.
func ReplaceMember(object []byte, name string, value func(dst, value []byte) []byte) []byte {
	return AppendMembers(make([]byte, 0, len(object)), object, func(dst []byte, member *Members) ([]byte, bool) {
		if string(member.Key) != name {
			return append(dst, object[member.Start:member.End]...), true
		}
		dst = append(dst, object[member.Start:member.End-len(member.Value)]...)
		return value(dst, member.Value), true
	})
}

// AppendMembers appends an object with those members that write keeps.
func AppendMembers(dst, object []byte, write func(dst []byte, m *Members) ([]byte, bool)) []byte {
	dst = append(dst, '{')
	first := true
	for m := Object(object); m.Next(); {
		from := len(dst)
		if !first {
			dst = append(dst, ',')
		}
		var kept bool
		if dst, kept = write(dst, &m); kept {
			first = false
		} else {
			dst = dst[:from]
		}
	}
	return append(dst, '}')
}

// AppendWithout appends an object without one of its members.
func AppendWithout(dst, object []byte, name string) []byte {
	return AppendMembers(dst, object, func(dst []byte, m *Members) ([]byte, bool) {
		return append(dst, object[m.Start:m.End]...), string(m.Key) != name
	})
}

// AppendElements appends an array with those elements that write keeps. A value that is not an array is copied.
func AppendElements(dst, list []byte, write func(dst, element []byte) ([]byte, bool)) (out []byte, kept int) {
	if !IsArray(list) {
		return append(dst, list...), 1
	}
	dst = append(dst, '[')
	for e := Array(list); e.Next(); {
		from := len(dst)
		if kept > 0 {
			dst = append(dst, ',')
		}
		var keep bool
		if dst, keep = write(dst, e.Value); keep {
			kept++
		} else {
			dst = dst[:from]
		}
	}
	return append(dst, ']'), kept
}
