package store

// FORMAT.md has the field numbers. New fields take the next number.

func (r *sessionRecord) writeFields(w *fieldWriter) {
	w.text(1, r.ID)
	w.text(2, r.Account)
	w.time(3, r.Created)
	w.time(4, r.Updated)
	w.text(5, r.Title)
	w.texts(6, r.Tags)
	w.text(7, r.Parent)
	w.text(8, r.Merged)
	w.flag(9, r.Derived)
	w.text(10, r.ChatKey)
	w.text(11, r.ExternalSession)
	w.text(12, r.NativeSession)
	w.text(13, r.Conversation)
	w.text(14, r.Agent)
	w.number(15, r.Exchanges)
	w.number(16, r.Completed)
	w.number(17, r.Auxiliary)
	r.Usage.write(w, 18)
	w.texts(19, r.Models)
	r.Error.write(w, 20)
	w.flag(21, r.Replied)
	for _, link := range r.Links {
		w.bytes(22, link)
	}
	r.Cost.write(w, 23)
	w.text(24, r.Note)
	for _, tokens := range r.Prompts {
		w.number(25, tokens)
	}
	w.text(26, r.Client)
	w.text(27, r.Project)
	w.text(28, r.Former)
}

func (r *sessionRecord) readField(f *fieldReader) {
	switch f.field {
	case 1:
		r.ID = f.string()
	case 2:
		r.Account = f.string()
	case 3:
		r.Created = f.time()
	case 4:
		r.Updated = f.time()
	case 5:
		r.Title = f.string()
	case 6:
		r.Tags = append(r.Tags, f.string())
	case 7:
		r.Parent = f.string()
	case 8:
		r.Merged = f.string()
	case 9:
		r.Derived = f.flag()
	case 10:
		r.ChatKey = f.string()
	case 11:
		r.ExternalSession = f.string()
	case 12:
		r.NativeSession = f.string()
	case 13:
		r.Conversation = f.string()
	case 14:
		r.Agent = f.string()
	case 15:
		r.Exchanges = f.number()
	case 16:
		r.Completed = f.number()
	case 17:
		r.Auxiliary = f.number()
	case 18:
		f.into(&r.Usage)
	case 19:
		r.Models = append(r.Models, f.string())
	case 20:
		r.Error = new(ErrorInfo)
		f.into(r.Error)
	case 21:
		r.Replied = f.flag()
	case 22:
		r.Links = append(r.Links, f.bytes())
	case 23:
		f.into(&r.Cost)
	case 24:
		r.Note = f.string()
	case 25:
		r.Prompts = append(r.Prompts, f.number())
	case 26:
		r.Client = f.string()
	case 27:
		r.Project = f.string()
	case 28:
		r.Former = f.string()
	}
}
