package vector

// scored is a row with its score.
type scored struct {
	row   int
	score float32
}

// top keeps the best of the rows offered to it, in a heap with the worst at its root.
type top struct {
	limit int
	list  []scored
}

func (t *top) offer(s scored) {
	if len(t.list) < t.limit {
		t.list = append(t.list, s)
		t.up(len(t.list) - 1)
		return
	}
	if t.limit > 0 && s.score > t.list[0].score {
		t.list[0] = s
		t.down()
	}
}

func (t *top) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.list[parent].score <= t.list[i].score {
			return
		}
		t.list[parent], t.list[i] = t.list[i], t.list[parent]
		i = parent
	}
}

func (t *top) down() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.list); child++ {
			if t.list[child].score < t.list[least].score {
				least = child
			}
		}
		if least == i {
			return
		}
		t.list[i], t.list[least] = t.list[least], t.list[i]
		i = least
	}
}
