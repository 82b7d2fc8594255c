package cli

import "github.com/stillhouse-data/stillhouse/training/lineage"

// loadLineage reads from the environment who is told what was trained on what.
// The variables are of our own: those of other programs may be set for them.
func (a *app) loadLineage() error {
	o := lineage.Options{
		OpenLineage: a.env("STILLHOUSE_OPENLINEAGE"), OpenLineageKey: a.env("OPENLINEAGE_API_KEY"),
		MLflow: a.env("STILLHOUSE_MLFLOW"), MLflowToken: a.env("MLFLOW_TRACKING_TOKEN"), Store: a.store,
	}
	if o.OpenLineage == "" && o.MLflow == "" {
		return nil
	}
	if o.OpenLineage == "" {
		o.OpenLineageKey = ""
	}
	if o.MLflow == "" {
		o.MLflowToken = ""
	}
	t, err := lineage.New(o)
	if err != nil {
		return usage("STILLHOUSE_OPENLINEAGE, STILLHOUSE_MLFLOW: %v", err)
	}
	a.lineage = t
	return nil
}
