package search

// signs is an Aho-Corasick automaton: it finds any of a few signs in a text in one pass. It ignores the case of letters, which
// must be ASCII.
type signs struct {
	classes [256]uint8 // of bytes; 0: in no sign
	width   int        // number of classes
	next    []int32    // the next state by state and class; a state is the offset of its row
}

// signFound is the state after any sign.
const signFound = -1

func newSigns(list ...string) *signs {
	s := &signs{width: 1}
	for _, sign := range list {
		for _, c := range []byte(sign) {
			if s.classes[c] == 0 {
				s.classes[c] = uint8(s.width)
				s.width++
			}
			if c >= 'a' && c <= 'z' {
				s.classes[c&^0x20] = s.classes[c]
			}
		}
	}
	s.next = make([]int32, s.width)
	for _, sign := range list {
		s.add(sign)
	}
	s.connect()
	return s
}

// at returns the index in next for a state and a class of bytes.
func (s *signs) at(state int32, class uint8) *int32 { return &s.next[int(state)+int(class)] }

// add adds the states of a sign. Until connect, 0 means no state.
func (s *signs) add(sign string) {
	state := int32(0)
	for i := range len(sign) {
		class := s.classes[sign[i]]
		if i == len(sign)-1 {
			*s.at(state, class) = signFound
			return
		}
		following := *s.at(state, class)
		if following == signFound {
			return // a shorter sign is found first
		}
		if following == 0 {
			following = int32(len(s.next))
			s.next = append(s.next, make([]int32, s.width)...)
			*s.at(state, class) = following
		}
		state = following
	}
}

// connect adds the fallback transitions: each state continues from the longest suffix that begins a sign, shorter states first.
func (s *signs) connect() {
	shorter := make([]int32, len(s.next)) // by state
	for states := []int32{0}; len(states) > 0; states = states[1:] {
		state := states[0]
		for class := range s.width {
			place, otherwise := s.at(state, uint8(class)), int32(0)
			if state > 0 {
				otherwise = *s.at(shorter[state], uint8(class))
			}
			switch {
			case *place == 0 || otherwise == signFound:
				*place = otherwise
			case *place != signFound:
				shorter[*place] = otherwise
				states = append(states, *place)
			}
		}
	}
}

// in reports whether a text contains any sign.
func (s *signs) in(text string) bool {
	state := int32(0)
	for i := range len(text) {
		if state = *s.at(state, s.classes[text[i]]); state == signFound {
			return true
		}
	}
	return false
}

// separators end words, beside blanks.
const separators = "\n\t\r.!?:;()[]{}\"*`>-"

// ofWords makes separators the same as the blanks of the signs.
func (s *signs) ofWords() *signs {
	for _, c := range []byte(separators) {
		s.classes[c] = s.classes[' ']
	}
	return s
}

// inWords is in for signs of words: the text counts as surrounded by blanks.
func (s *signs) inWords(text string) bool {
	blank := s.classes[' ']
	state := *s.at(0, blank)
	for i := range len(text) {
		if state = *s.at(state, s.classes[text[i]]); state == signFound {
			return true
		}
	}
	return *s.at(state, blank) == signFound
}
