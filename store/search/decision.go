package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Decision is a sentence that says what is to hold from then on, as it was said.
type Decision struct {
	Text     string
	Rejected bool // it says what was tried or considered, and is not to be done
}

// Bounds of decisions.
const (
	maxDecided    = 32 << 10 // bytes of a text that are examined
	maxDecision   = 400      // bytes of a sentence
	mostDecisions = 32       // of a text
)

// Words with which a text decides something, those with which only a person rules, and those that reject. They stand between
// blanks.
var (
	rejections = []string{
		" rejected ", " reject ", " ruled out ", " does not work", " doesn't work", " did not work", " didn't work", " discarded ", " abandoned ",
		" reverted ", " not worth ", " gave up on ", " tried ", " verworfen",
	}
	decisions = slices.Concat(rejections, []string{
		" decid", " decision", " chose ", " chosen ", " we choose ", " went with ", " going with ", " go with ", " settled on ", " agreed ",
		" instead of ", " rather than ", " in favor of ", " in favour of ", " on purpose ", " deliberately ", " intentionally ", " from now on", //nolint:misspell // people write either
		" must ", " mustn't ", " has to stay", " have to stay", " stays ", ", and not ", ", not ", " we use ", " we take ", " we keep ",
		" entschieden", " entscheid", " anstatt ", " statt ", " anstelle ", " bleibt ", " ab jetzt ", " décid", " plutôt que ", " en lugar de ",
		"決め", "決定", "ではなく", "决定", "必须",
	})
	rules = slices.Concat(decisions, []string{
		" never ", " always ", " do not ", " don't ", " don’t ", " dont ", " should ", " shouldn't ", " may not ", " cannot ", " can't ", " not allowed ", " forbidden ",
		" has to ", " have to ", " needs to ", " required ", " no new ", " no other ", " only ", " without ", " avoid ", " keep ", " leave ", " stay ", " make sure ", " ensure ",
		" at most ", " at least ", " no more than ", " prefer ", " remember ", " no longer ", " backward", " compatib", " use ",
		" nie ", " niemals ", " immer ", " nicht ", " muss ", " müssen ", " darf ", " dürfen ", " nur ", " kein", " ohne ",
		" jamais ", " toujours ", " ne pas ", " nunca ", " siempre ", " sin ", "必ず", "しないで", "不要", "始终",
	})
	decisionSigns, ruleSigns, rejectionSigns = newSigns(decisions...).ofWords(), newSigns(rules...).ofWords(), newSigns(rejections...).ofWords()
)

// Decisions returns the sentences of a text that decide something. Of a person's those count as well that set a rule: what
// always, never or only is to be done. Questions decide nothing.
func Decisions(text string, person bool) (list []Decision) {
	signs := decisionSigns
	if person {
		signs = ruleSigns
	}
	text = cut(text, maxDecided)
	if !signs.inWords(text) { // most
		return nil
	}
	for _, sentence := range Sentences(text) {
		sentence = strings.TrimSpace(sentence)
		if !signs.inWords(sentence) || strings.HasSuffix(sentence, "?") {
			continue
		}
		if list = append(list, Decision{cut(sentence, maxDecision), rejectionSigns.inWords(sentence)}); len(list) == mostDecisions {
			break
		}
	}
	return list
}

// Decided is the filter of turns in which something is decided.
var Decided = Filter{Field: "kind", Op: "eq", Value: kindDecided}

// AsksForDecision reports whether a question is about what was decided, chosen or rejected.
func AsksForDecision(question string) bool {
	return decisionSigns.inWords(question)
}

// Sentences splits a text behind its sentences and lines; together they are the text.
func Sentences(text string) (list []string) {
	start := 0
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		next, _ := utf8.DecodeRuneInString(text[min(end, len(text)):])
		if r == '\n' || strings.ContainsRune("。！？", r) || strings.ContainsRune(".!?", r) && unicode.IsSpace(next) {
			list = append(list, text[start:end])
			start = end
		}
	}
	if start < len(text) {
		list = append(list, text[start:])
	}
	return list
}
