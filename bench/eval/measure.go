package main

import (
	"math"
	"slices"
)

// measures are means over the questions that have an answer.
type measures struct {
	questions int
	halves    [2]float64 // ndcg of the questions with even and with odd numbers: parameters are chosen on the first, and judged on the second
	counts    [2]int
	ndcg      float64         // of the first 10, with linear gain
	mrr       float64         // of the first 10
	first     float64         // questions whose first hit answers them
	recall    map[int]float64 // found of all relevant, by cut-off
}

var cutoffs = []int{1, 5, 10, 100}

// add takes in the ranking that a question got, by its number in the set.
func (m *measures) add(number int, grades map[string]float64, ranking []string) {
	var ideal []float64
	for _, g := range grades {
		if g > 0 {
			ideal = append(ideal, g)
		}
	}
	if len(ideal) == 0 {
		return
	}
	slices.SortFunc(ideal, func(a, b float64) int { return int(b - a) })
	gains := make([]float64, len(ranking))
	for i, id := range ranking {
		gains[i] = grades[id]
	}
	if m.recall == nil {
		m.recall = make(map[int]float64)
	}
	m.questions++
	gain := discounted(gains) / discounted(ideal)
	m.ndcg += gain
	m.halves[number%2] += gain
	m.counts[number%2]++
	if first := slices.IndexFunc(gains[:min(10, len(gains))], func(g float64) bool { return g > 0 }); first >= 0 {
		m.mrr += 1 / float64(first+1)
	}
	if len(gains) > 0 && gains[0] > 0 {
		m.first++
	}
	for _, k := range cutoffs {
		found := 0
		for _, g := range gains[:min(k, len(gains))] {
			if g > 0 {
				found++
			}
		}
		m.recall[k] += float64(found) / float64(len(ideal))
	}
}

// discounted is the gain of the first ten, each worth less the later it comes.
func discounted(gains []float64) (sum float64) {
	for i, g := range gains[:min(10, len(gains))] {
		sum += g / math.Log2(float64(i)+2)
	}
	return sum
}

// mean turns sums into means.
func (m *measures) mean() {
	n := float64(max(m.questions, 1))
	m.ndcg /= n
	m.mrr /= n
	m.first /= n
	for i := range m.halves {
		m.halves[i] /= float64(max(m.counts[i], 1))
	}
	for k := range m.recall {
		m.recall[k] /= n
	}
}
