package lexical

import (
	"strings"
	"testing"
	"unicode"

	porterstemmer "github.com/blevesearch/go-porterstemmer"
	"pgregory.net/rapid"
)

// The quick way through ASCII finds the words that the rules of Unicode give, whatever stands around it.
func TestWordsAreThoseOfUnicode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(
			rapid.StringOfN(rapid.RuneFrom([]rune("aZ09_.':,; -/\r\n\t\"@\x00")), 0, 12, -1),
			rapid.StringOfN(rapid.RuneFrom(nil, unicode.Han, unicode.Katakana, unicode.Hangul, unicode.Mn, unicode.Hebrew, unicode.Cyrillic), 0, 3, -1),
			rapid.SampledFrom([]string{" ", "  ", "e\u0301", " \u0301", "don’t", "a\u200db", "\u00a0", "\u2028", "3.14", "v1.2.3", "std::string", "検索システム"}),
			rapid.String(),
		)
		text := ""
		for _, p := range rapid.SliceOfN(piece, 0, 8).Draw(t, "text") {
			text += p
		}
		text = strings.Map(func(r rune) rune {
			if isEmoji(r) || isUnspaced(r) {
				return -1 // these are words by rules of this package
			}
			return r
		}, text)
		var want []word
		for _, token := range unicodeWords.Tokenize([]byte(text)) {
			want = append(want, word{token.Start, token.End, ideographic(token)})
		}
		var got []word
		eachWord([]byte(text), func(w word) { got = append(got, w) })
		if len(got) != len(want) {
			t.Fatalf("%q has words %v, want %v", text, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q has words %v, want %v", text, got, want)
			}
		}
	})
}

func TestAStemIsTheSameRememberedOrNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-z]{1,40}`).Draw(t, "word")
		lower := fold([]byte(text))
		want := string(porterstemmer.StemWithoutLowerCasing([]rune(lower)))
		for range 2 {
			got, ok := stem([]byte(text))
			if ok == stops[lower] || ok && got != want {
				t.Fatalf("stem of %q is %q (%v), want %q", text, got, ok, want)
			}
		}
	})
}

// Scripts without blanks between words are found inside of a run by any part of it, with their vowels and tones, and emoji as
// words.
func TestAWordIsFoundInsideAScriptWithoutBlanks(t *testing.T) {
	terms := func(text string) map[string]bool {
		found := map[string]bool{}
		for _, token := range prose([]byte(text)) {
			found[token.term] = true
		}
		return found
	}
	for name, c := range map[string]struct{ text, query, other string }{
		"Thai":                  {"วันนี้ระบบฐานข้อมูลล่มเพราะดิสก์เต็ม", "ฐานข้อมูล", "เครือข่าย"},
		"Thai tone":             {"ข่าวเรื่องม้า", "ม้า", "มา"},
		"Thai between others":   {"deploy ของระบบสำรองข้อมูลv2 แล้ว", "สำรองข้อมูล", "กู้คืน"},
		"Lao":                   {"ມື້ນີ້ລະບົບຖານຂໍ້ມູນຂັດຂ້ອງ", "ຖານຂໍ້ມູນ", "ເຄືອຂ່າຍ"},
		"Khmer":                 {"ថ្ងៃនេះមូលដ្ឋានទិន្នន័យគាំង", "ទិន្នន័យ", "បណ្ដាញ"},
		"Khmer, spaces of none": {"មូលដ្ឋាន\u200bទិន្នន័យ\u200bគាំង", "ដ្ឋានទិន្នន័យ", "បណ្ដាញ"},
		"Burmese":               {"ယနေ့ဒေတာဘေ့စ်ပျက်သွားသည်", "ဒေတာဘေ့စ်", "ကွန်ရက်"},
		"Tibetan":               {"དེ་རིང་གནས་ཚུལ་གསར་པ་ཡོད།", "གནས་ཚུལ", "དཔེ་ཆ"},
		"Chinese":               {"任务悬空引用检查", "悬空", "数据"},
		"emoji":                 {"deploy 🚀 done", "🚀", "🔥"},
		"emoji in a word":       {"ship it🚀now", "🚀", "🔥"},
		"emoji of several":      {"by 👩🏽\u200d💻 ok ✔\ufe0f", "👩💻✔", "👨"},
		"flag":                  {"from 🇩🇪 to all", "🇩🇪", "🇫🇷"},
	} {
		t.Run(name, func(t *testing.T) {
			text, query := terms(c.text), terms(c.query)
			if len(query) == 0 {
				t.Fatal("the query has no terms")
			}
			for term := range query {
				if !text[term] {
					t.Errorf("%q is not among %v", term, text)
				}
			}
			every := true
			for term := range terms(c.other) {
				every = every && text[term]
			}
			if every {
				t.Errorf("all of %q is found too", c.other)
			}
		})
	}
}
