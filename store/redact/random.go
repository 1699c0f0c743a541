package redact

import "math"

// randomRow is how many letters without a digit among them make a row that may be made up by a machine.
const randomRow = 40

// random tells a made-up word from written ones: it has a digit, and somewhere ten letters and digits in a row, or many
// letters of all kinds.
func random(text []byte) bool {
	if !holdsDigit(text) {
		return randomLetters(text)
	}
	return longestRow(text, classAlnum) >= 10
}

// randomLetters reports whether letters without a digit are made up: so many in a row are no word, several words could be
// spoken, and names have no more than a few capitals.
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

// longestRow is the length of the longest row of bytes of a class.
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

// entropy is Shannon's, in bits for each byte.
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

// isWritten reports whether text is made of nothing but words, names and numbers with signs between, as people write them:
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

// isWord reports whether letters and digits are a number, or letters as words and names have them with a number before
// or after.
func isWord(text []byte) bool {
	const (
		number  = 8  // digits: a date has them
		beside  = 4  // digits beside letters
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
		consonants = 5 // in a row
		hump       = 3 // letters that each capital of camelCase has at least, on average
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
