package provider

import "net/http"

func checkChat(o object, model string, messages []raw) *fault                     { return nil }
func checkResponses(o object, model string, items []raw, pending []string) *fault { return nil }
func checkMessages(o object, h http.Header, messages []raw) *fault                { return nil }
func checkCountTokens(o object, h http.Header) *fault                             { return nil }
func checkGemini(o object, model string, contents []raw) *fault                   { return nil }
func checkGeminiEmbedding(o object, model string) *fault                          { return nil }
func checkEmbeddings(o object, model string) *fault                               { return nil }
