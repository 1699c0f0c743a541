// Command generate makes the table of package synonyms from the files of WordNet 3.0, as Debian's package wordnet-base has them, and from a
// list of words of the trade. The same files always give the same table:
//
//	apt-get install wordnet-base
//	go generate ./store/search/synonyms
//
// A word gets the synonyms of its first senses as noun, verb, adjective and adverb. Words of several parts and proper names are left
// out, as are synonyms that searches do not tell from the word, because both have the same stem.
package main

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	porterstemmer "github.com/blevesearch/go-porterstemmer"

	"github.com/mnemeproxy/mneme/store/search/synonyms"
)

func main() {
	dir := flag.String("wordnet", "/usr/share/wordnet", "directory with the files of WordNet 3.0")
	trade := flag.String("trade", "trade.txt", "file with words of the trade that mean the same, a line for each group")
	to := flag.String("to", "synonyms.table", "file to write")
	flag.Parse()
	g := &generator{dir: *dir, synsets: make(map[string]*synset), frequencies: make(map[string]int), found: make(map[string]map[string]float64)}
	err := g.read(*trade)
	if err == nil {
		err = os.WriteFile(*to, g.table(), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// Weights by kind. Each further sense of a word weighs furtherSense times as much as the one before.
const (
	sameMeaning   = 1
	inTheTrade    = 0.75
	nearMeaning   = 0.6 // derived from the word, or similar
	kindOf        = 0.35
	furtherSense  = 0.6
	sensesOfAPart = 3
)

// parts of speech, by the names of their files and by their letters in pointers. An adjective that only goes with another one has the
// letter s in its own record, but a in pointers.
var parts = map[string]string{"noun": "n", "verb": "v", "adj": "a", "adv": "r"}

type synset struct {
	words    []string // as written
	pointers []pointer
}

type pointer struct {
	weight   float64
	synset   string // letter and offset
	from, to int    // words, from 1; 0: all
}

type generator struct {
	dir         string
	synsets     map[string]*synset // by letter and offset
	frequencies map[string]int     // of words
	found       map[string]map[string]float64
}

func (g *generator) read(trade string) error {
	for part, letter := range parts {
		if err := g.eachLine("data."+part, func(line string) error { return g.synset(letter, line) }); err != nil {
			return err
		}
	}
	if err := g.eachLine("cntlist.rev", g.frequency); err != nil {
		return err
	}
	for _, part := range []string{"noun", "verb", "adj", "adv"} {
		if err := g.eachLine("index."+part, func(line string) error { return g.word(parts[part], line) }); err != nil {
			return err
		}
	}
	for _, part := range []string{"noun", "verb", "adj", "adv"} {
		if err := g.eachLine(part+".exc", g.exception); err != nil {
			return err
		}
	}
	return lines(trade, g.trade)
}

// eachLine reads a file of WordNet without the license at its beginning.
func (g *generator) eachLine(name string, take func(line string) error) error {
	return lines(filepath.Join(g.dir, name), func(line string) error {
		if strings.HasPrefix(line, " ") {
			return nil
		}
		return take(line)
	})
}

func lines(path string, take func(line string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadString('\n')
		if line = strings.TrimRight(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			if err := take(line); err != nil {
				return fmt.Errorf("%s: %w: %s", path, err, line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var errShort = errors.New("the line ends too early")

// fields reads a line word by word.
type fields struct {
	left []string
	err  error
}

func (f *fields) next() string {
	if len(f.left) == 0 {
		f.err = cmp.Or(f.err, errShort)
		return ""
	}
	word := f.left[0]
	f.left = f.left[1:]
	return word
}

func (f *fields) number(base int) int {
	n, err := strconv.ParseInt(f.next(), base, 32)
	f.err = cmp.Or(f.err, err)
	return int(n)
}

// synset reads a line of a data file: offset, file, kind, words, pointers.
func (g *generator) synset(letter, line string) error {
	line, _, _ = strings.Cut(line, "|")
	f := &fields{left: strings.Fields(line)}
	s := new(synset)
	offset := f.next()
	f.next()
	f.next()
	for range f.number(16) {
		word, _, _ := strings.Cut(f.next(), "(") // (p) and the like after adjectives
		s.words = append(s.words, word)
		f.next()
	}
	for range f.number(10) {
		kind, at, letter, ends := f.next(), f.next(), f.next(), f.next()
		p := pointer{synset: letter + at}
		switch kind {
		case "&", "+", `\`, "<":
			p.weight = nearMeaning
		case "@", "~":
			p.weight = kindOf
		default:
			continue
		}
		n, err := strconv.ParseUint(ends, 16, 16)
		f.err = cmp.Or(f.err, err)
		p.from, p.to = int(n>>8), int(n&0xff)
		s.pointers = append(s.pointers, p)
	}
	g.synsets[letter+offset] = s
	return f.err
}

// frequency reads how often a sense was tagged in texts.
func (g *generator) frequency(line string) error {
	f := &fields{left: strings.Fields(line)}
	key, _, _ := strings.Cut(f.next(), "%")
	f.next()
	g.frequencies[key] += f.number(10)
	return f.err
}

// word reads a line of an index file: the synsets of a word, the most frequent first.
func (g *generator) word(letter, line string) error {
	f := &fields{left: strings.Fields(line)}
	word := f.next()
	f.next()
	senses := f.number(10)
	for range f.number(10) {
		f.next()
	}
	f.next()
	f.next()
	if !simple(word) {
		return f.err
	}
	weight := 1.0
	for i := range senses {
		offset := f.next()
		if i < sensesOfAPart {
			g.sense(word, g.synsets[letter+offset], weight)
		}
		weight *= furtherSense
	}
	return f.err
}

// sense takes in what a word means in one sense.
func (g *generator) sense(word string, s *synset, weight float64) {
	place := slices.IndexFunc(s.words, func(w string) bool { return strings.EqualFold(w, word) }) + 1
	if place == 0 || s.words[place-1] != word {
		return // a proper name
	}
	if g.found[word] == nil {
		g.found[word] = make(map[string]float64)
	}
	for _, other := range s.words {
		g.add(word, other, sameMeaning*weight)
	}
	for _, p := range s.pointers {
		if p.from != 0 && p.from != place {
			continue
		}
		for i, other := range g.synsets[p.synset].words {
			if p.to == 0 || p.to == i+1 {
				g.add(word, other, p.weight*weight)
			}
		}
	}
}

func (g *generator) add(word, other string, weight float64) {
	if simple(other) && stem(other) != stem(word) {
		g.found[word][other] = max(g.found[word][other], weight)
	}
}

// exception reads an irregular form and the words that it is a form of.
func (g *generator) exception(line string) error {
	words := strings.Fields(line)
	form := words[0]
	for _, word := range words[1:] {
		for other, weight := range g.found[word] {
			if !simple(form) || !simple(word) {
				continue
			}
			if g.found[form] == nil {
				g.found[form] = make(map[string]float64)
			}
			g.add(form, other, weight)
			g.add(form, word, sameMeaning)
		}
	}
	return nil
}

// trade reads words that mean the same.
func (g *generator) trade(line string) error {
	words := strings.Fields(line)
	for _, word := range words {
		if !simple(word) {
			return fmt.Errorf("%q is more than letters and digits in lower case", word)
		}
		for _, other := range words {
			if g.found[word] == nil {
				g.found[word] = make(map[string]float64)
			}
			g.add(word, other, inTheTrade)
		}
	}
	return nil
}

// simple reports whether a word is one that searches find as a whole, and no proper name.
func simple(word string) bool {
	letters := false
	for _, c := range []byte(word) {
		switch {
		case c >= 'a' && c <= 'z':
			letters = true
		case c < '0' || c > '9':
			return false
		}
	}
	return letters && len(word) > 1 && len(word) < 64
}

func stem(word string) string { return string(porterstemmer.StemWithoutLowerCasing([]rune(word))) }

// best returns the synonyms of a word that are kept: of those with the same stem the most frequent.
func (g *generator) best(word string) []string {
	byStem := make(map[string]string)
	better := func(a, b string) int {
		return cmp.Or(cmp.Compare(g.found[word][b], g.found[word][a]), cmp.Compare(g.frequencies[b], g.frequencies[a]), cmp.Compare(a, b))
	}
	for other := range g.found[word] {
		if known, there := byStem[stem(other)]; !there || better(other, known) < 0 {
			byStem[stem(other)] = other
		}
	}
	var list []string
	for _, other := range byStem {
		list = append(list, other)
	}
	slices.SortFunc(list, better)
	return list[:min(len(list), synonyms.Most)]
}

const (
	wordsInBlock = 16
	weightBits   = 3
)

// table writes the table; package synonyms describes its form.
func (g *generator) table() []byte {
	kept := make(map[string][]string, len(g.found))
	numbers := make(map[string]int)
	for word := range g.found {
		kept[word] = g.best(word)
		numbers[word] = 0
		for _, other := range kept[word] {
			numbers[other] = 0
		}
	}
	words := make([]string, 0, len(numbers))
	for word := range numbers {
		words = append(words, word)
	}
	slices.Sort(words)
	for i, word := range words {
		numbers[word] = i
	}
	blocks := (len(words) + wordsInBlock - 1) / wordsInBlock
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(words)))
	head = binary.LittleEndian.AppendUint32(head, uint32(blocks))
	var body []byte
	pairs, former := 0, ""
	for i, word := range words {
		if i%wordsInBlock == 0 {
			former = ""
			head = binary.LittleEndian.AppendUint32(head, uint32(8+4*blocks+len(body)))
		}
		shared := 0
		for shared < min(len(word), len(former)) && word[shared] == former[shared] {
			shared++
		}
		body = append(body, byte(shared), byte(len(word)-shared), byte(len(kept[word])))
		body = append(body, word[shared:]...)
		for _, other := range kept[word] {
			value := numbers[other]<<weightBits | nearest(g.found[word][other])
			body = append(body, byte(value), byte(value>>8), byte(value>>16))
		}
		former, pairs = word, pairs+len(kept[word])
	}
	fmt.Printf("%d words, %d pairs, %d bytes\n", len(words), pairs, len(head)+len(body))
	return append(head, body...)
}

// nearest returns the number of the weight nearest to one.
func nearest(weight float64) (number int) {
	for i, w := range synonyms.Weights {
		if abs(w-weight) < abs(synonyms.Weights[number]-weight) {
			number = i
		}
	}
	return number
}

func abs(x float64) float64 { return max(x, -x) }
