package clients

// geminiCLI sends no ids either. Its instructions for the request that compresses a conversation are others than those of turns.
var geminiCLI = client{
	headers:   []string{"User-Agent"},
	summaries: []string{"responsible for distilling chat history"},
}
