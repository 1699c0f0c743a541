package repeats

// Kept returns how many reports are remembered.
func (r *Reports) Kept() int { return len(r.last) }
