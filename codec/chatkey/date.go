package chatkey

import "bytes"

// appendUndated appends a line without white space and without the dates and times in it.
func appendUndated(dst, line []byte) []byte {
	if !mayHoldMoment(line) {
		return appendWords(dst, line)
	}
	from := 0
	for i := 0; i < len(line); {
		n := 0
		if startsWord(line, i) {
			n = moment(line[i:])
		}
		if n == 0 {
			i++
			continue
		}
		dst = appendWords(dst, line[from:i])
		i += n
		from = i
	}
	return appendWords(dst, line[from:])
}

// mayHoldMoment reports whether there is a year or a time in the line; few lines have one.
func mayHoldMoment(line []byte) bool {
	for i, c := range line {
		if c-'0' > 9 || i+3 >= len(line) {
			continue
		}
		if line[i+1] == ':' && line[i+2]-'0' <= 9 || isYear(line[i:]) && line[i+2]-'0' <= 9 && line[i+3]-'0' <= 9 {
			return true
		}
	}
	return false
}

// startsWord reports whether a number or a word begins at i.
func startsWord(line []byte, i int) bool {
	c := line[i]
	if c-'0' > 9 && lower(c)-'a' > 25 {
		return false
	}
	return i == 0 || !isAlphanumeric(line[i-1])
}

func isAlphanumeric(c byte) bool { return c-'0' <= 9 || lower(c)-'a' <= 25 }

// moment returns the length of the date or time at the start of text, 0 if there is none. Dates have a year:
// 2026-11-20, 2026/11/20, 20.11.2026, 11/20/2026, November 20, 2026, 20 Nov 2026, Nov 20 14:05 2026, each optionally
// with a weekday before it and a time after it. Times are such as 14:05.
func moment(text []byte) int {
	at := 0
	if n := word(text); n > 0 {
		if oneOf(text[:n], weekdays[:]) {
			at = gap(text, n)
		}
	}
	n := date(text[at:])
	if n == 0 {
		return clock(text)
	}
	at += n
	behind := gap(text, at)
	if behind < len(text) && text[behind] == 'T' {
		behind++
	}
	if n := clock(text[behind:]); n > 0 {
		return behind + n
	}
	return at
}

var (
	weekdays = [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	months   = [...]string{
		"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
	}
)

// oneOf reports whether word is one of the names, or the first three letters of one.
func oneOf(word []byte, names []string) bool {
	for _, name := range names {
		if (len(word) == 3 || len(word) == len(name)) && hasBeginning(word, name[:len(word)]) {
			return true
		}
	}
	return false
}

func word(text []byte) (n int) {
	for n < len(text) && lower(text[n])-'a' <= 25 {
		n++
	}
	return n
}

func digits(text []byte) (n int) {
	for n < len(text) && text[n]-'0' <= 9 {
		n++
	}
	return n
}

// gap returns the offset after the spaces, commas and full stops at i.
func gap(text []byte, i int) int {
	for i < len(text) && bytes.IndexByte([]byte(" ,.\t"), text[i]) >= 0 {
		i++
	}
	return i
}

// date returns the length of the date at the start of text.
func date(text []byte) int {
	if n := digits(text); n == 4 || n == 1 || n == 2 {
		if n := numericDate(text, n); n > 0 {
			return n
		}
	}
	return namedDate(text)
}

// numericDate reads a date of three numbers, the first of which has first digits: the year is first or last.
func numericDate(text []byte, first int) int {
	at := first
	if at >= len(text) || bytes.IndexByte([]byte("-/."), text[at]) < 0 {
		return 0
	}
	separator := text[at]
	at++
	second := digits(text[at:])
	at += second
	if second < 1 || second > 2 || at >= len(text) || text[at] != separator {
		return 0
	}
	at++
	third := digits(text[at:])
	at += third
	switch {
	case first == 4 && isYear(text) && (third == 1 || third == 2):
		return at
	case first < 4 && third == 4 && isYear(text[at-4:]):
		return at
	}
	return 0
}

// namedDate reads month, day and year, or day, month and year; the day may be missing.
func namedDate(text []byte) int {
	at := day(text, 0)
	n := word(text[at:])
	if n == 0 || !oneOf(text[at:at+n], months[:]) {
		return 0
	}
	at = gap(text, at+n)
	if digits(text[at:]) < 3 {
		at = day(text, at)
	}
	if n := clock(text[at:]); n > 0 { // Fri Nov 20 14:05:00 UTC 2026
		at = gap(text, at+n)
	}
	if digits(text[at:]) != 4 || !isYear(text[at:]) {
		return 0
	}
	return at + 4
}

// day returns the offset after a day of the month at i and the gap after it; i if there is none.
func day(text []byte, i int) int {
	n := digits(text[i:])
	if n == 0 || n > 2 {
		return i
	}
	end := i + n
	switch suffix := word(text[end:]); {
	case suffix == 2 && isOrdinal(text[end:end+2]):
		end += suffix
	case suffix > 0:
		return i
	}
	return gap(text, end)
}

func isOrdinal(suffix []byte) bool {
	switch string(bytes.ToLower(suffix)) {
	case "st", "nd", "rd", "th":
		return true
	}
	return false
}

func isYear(text []byte) bool {
	return len(text) >= 4 && (string(text[:2]) == "19" || string(text[:2]) == "20")
}

// clock returns the length of the time at the start of text, including the zone.
func clock(text []byte) int {
	n := digits(text)
	if n == 0 || n > 2 || n >= len(text) || text[n] != ':' || digits(text[n+1:]) != 2 {
		return 0
	}
	at := n + 3
	if at < len(text) && text[at] == ':' && digits(text[at+1:]) == 2 {
		at += 3
	}
	if at < len(text) && text[at] == '.' {
		at += 1 + digits(text[at+1:])
	}
	return zone(text, at)
}

// zone returns the offset after "Z", "+01:00", " AM", " UTC" and the like at i.
func zone(text []byte, i int) int {
	rest := bytes.TrimLeft(text[i:], " ")
	at := len(text) - len(rest)
	switch n := word(rest); {
	case n > 0 && n < 5 && isZone(rest[:n]):
		return at + n
	case len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') && digits(rest[1:]) >= 2:
		at += 1 + digits(rest[1:])
		if at < len(text) && text[at] == ':' {
			at += 1 + digits(text[at+1:])
		}
		return at
	}
	return i
}

// isZone reports whether a word after a time is a zone.
func isZone(word []byte) bool {
	switch string(bytes.ToUpper(word)) {
	case "Z", "AM", "PM", "UTC", "GMT", "CET", "CEST", "EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT":
		return true
	}
	return false
}
