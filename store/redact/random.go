package redact

import "math"

// randomRow is how many letters without a digit may be random.
const randomRow = 40

// random distinguishes random words from written ones: a random word has a digit and ten letters and digits in a row,
// or many letters of all kinds.
func random(text []byte) bool {
	if !holdsDigit(text) {
		return randomLetters(text)
	}
	return longestRow(text, classAlnum) >= 10
}

// randomLetters reports whether letters without a digit are random: so many in a row are not a word, several words
// would be pronounceable, and names have few capitals.
func randomLetters(text []byte) bool {
	if longestRow(text, classAlnum) < randomRow || entropy(text) < 4 {
		return false
	}
	capitals := 0
	for _, c := range text {
		if isUpper(c) {
			capitals++
		}
	}
	if capitals == 0 || capitals == len(text) {
		return !isSpoken(text)
	}
	return 3*capitals > len(text)
}

// longestRow returns the length of the longest row of bytes of a class.
func longestRow(text []byte, class byte) (longest int) {
	row := 0
	for _, c := range text {
		if row++; classes[c]&class == 0 {
			row = 0
		}
		longest = max(longest, row)
	}
	return longest
}

// entropy returns Shannon's entropy in bits per byte.
func entropy(text []byte) (bits float64) {
	var counts [256]int
	for _, c := range text {
		counts[c]++
	}
	for _, n := range &counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// isWritten reports whether text consists of words, names and numbers with separators, as people write them:
// my-app-tls-2024, config.DB2.user, sha256.
func isWritten(text []byte) bool {
	for at := 0; at < len(text); at++ {
		end := stretch(text, at, len(text), classAlnum)
		if end > at && !isWord(text[at:end]) {
			return false
		}
		at = end
	}
	return true
}

// isWord reports whether letters and digits are a number, or a word or name with a number before or after.
func isWord(text []byte) bool {
	const (
		number  = 8  // digits, as in a date
		beside  = 4  // digits next to letters
		longest = 24 // letters
	)
	first := stretch(text, 0, len(text), classDigit)
	if first == len(text) {
		return first <= number
	}
	last := len(text)
	for classes[text[last-1]]&classDigit != 0 {
		last--
	}
	word := text[first:last]
	if first > beside || len(text)-last > beside || first > 0 && last < len(text) || len(word) > longest {
		return false
	}
	return !holdsDigit(word) && isSpoken(word)
}

// isSpoken reports whether letters have vowels, and no more capitals than words in camelCase.
func isSpoken(letters []byte) bool {
	const (
		consonants = 5 // consecutive consonants
		hump       = 3 // letters per capital in camelCase, at least, on average
	)
	humps, row := 1, 0
	for i, c := range letters {
		if i > 0 && isUpper(c) && !isUpper(letters[i-1]) {
			humps++
		}
		switch row++; c | 0x20 {
		case 'a', 'e', 'i', 'o', 'u', 'y':
			row = 0
		}
		if row > consonants {
			return false
		}
	}
	return humps == 1 || len(letters) >= hump*humps
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func holdsLetter(text []byte) bool {
	for _, c := range text {
		if isLetter(c) {
			return true
		}
	}
	return false
}
