package router

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"go.yaml.in/yaml/v3"
)

var (
	//go:embed models.yaml
	builtInModels []byte
	//go:embed prices.yaml
	builtInPrices []byte
)

// modelFile is the form of models.yaml, of prices.yaml, and of an operator's file, which may contain both.
type modelFile struct {
	AsOf    string            `yaml:"as_of"`
	Models  []modelRow        `yaml:"models"`
	Sources map[string]string `yaml:"sources"`
	Prices  []priceRow        `yaml:"prices"`
}

func parseModelFile(data []byte) (*modelFile, error) {
	var file modelFile
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := completeModels(file.Models); err != nil {
		return nil, err
	}
	if err := completePrices(file.Prices, file.AsOf); err != nil {
		return nil, err
	}
	return &file, nil
}

// modelFacts are the facts about models, with prices.
type modelFacts struct {
	models *catalog
	prices *priceList
}

// builtInFacts are parsed once: a configuration is checked with a separate router before one is run.
var builtInFacts = sync.OnceValues(func() (modelFacts, error) {
	models, err := parseModelFile(builtInModels)
	if err != nil {
		return modelFacts{}, fmt.Errorf("models.yaml: %w", err)
	}
	prices, err := parseModelFile(builtInPrices)
	if err != nil {
		return modelFacts{}, fmt.Errorf("prices.yaml: %w", err)
	}
	facts := modelFacts{
		models: &catalog{asOf: models.AsOf, rows: models.Models},
		prices: &priceList{asOf: prices.AsOf, rows: prices.Prices},
	}
	facts.models.sort()
	facts.prices.sort()
	return facts, nil
})

// loadModelFacts overlays the operator's file on the built-in facts. "" means no file.
func loadModelFacts(path string) (modelFacts, error) {
	own, err := builtInFacts()
	if err != nil || path == "" {
		return own, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return modelFacts{}, fmt.Errorf("models_file: %w", err)
	}
	over, err := parseModelFile(data)
	if err != nil {
		return modelFacts{}, fmt.Errorf("models_file %s: %w", path, err)
	}
	return modelFacts{models: own.models.with(over.Models), prices: own.prices.with(over.Prices)}, nil
}

// LoadPrices returns the built-in prices, with those of an operator's file laid over them; "" means no file.
func LoadPrices(modelsFile string) (Prices, error) {
	facts, err := loadModelFacts(modelsFile)
	return Prices{facts.prices}, err
}
