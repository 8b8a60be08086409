"""The simple ways as a user would write them, in numpy and with exact expectations: the referee of taskveil's own."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone


def out_of_fold(model, X, y, fold, *, classes=None):
    """Predictions (N, S) of every record by a copy of the model that did not see it."""
    found = np.zeros((len(X), 1 if classes is None else len(classes)))
    for part in np.unique(fold):
        held, copy = fold == part, clone(model).fit(X[fold != part], y[fold != part])
        if classes is None:
            found[held] = copy.predict(X[held])[:, None]
        else:
            found[np.ix_(held, np.searchsorted(classes, copy.classes_))] = copy.predict_proba(X[held])
    return found


def channel(size, epsilon):
    """P[report | value] of k-ary randomised response, (K, K)."""
    return (1 + (np.exp(epsilon) - 1) * np.eye(size)) / (np.exp(epsilon) + size - 1)


def label_response(predicted, y, label_test, y_test, epsilon):
    """(loss, accuracy): P[class | report] by Bayes' rule from the counts (predicted label, class)."""
    classes = predicted.shape[1]
    counts = np.zeros((classes, classes))
    np.add.at(counts, (predicted.argmax(axis=1), y), 1)
    counts += (counts.sum(axis=0) + 1 / classes) / (counts.sum() + 1)  # one person more behind every label
    answers = channel(classes, epsilon) @ counts
    answers /= answers.sum(axis=1, keepdims=True)
    chances = channel(classes, epsilon)[label_test]
    right = answers.argmax(axis=1) == y_test[:, None]
    return (chances * -np.log(answers[:, y_test].T)).sum(axis=1).mean(), (chances * right).sum(axis=1).mean()


def binned_response(predicted, y, predicted_test, y_test, epsilon, sizes=(2, 3, 4, 6, 8, 12, 16, 24, 32)):
    """The mean squared error of answering with the mean truth given the reported quantile bin."""
    found = []
    for size in (size for size in sizes if 5 * size <= len(y)):
        edges = np.quantile(predicted, np.arange(1, size) / size)
        design, test = np.searchsorted(edges, predicted), np.searchsorted(edges, predicted_test)
        members = np.eye(size)[design]
        total, mass = members.T @ y + y.mean(), members.sum(axis=0) + 1
        answers = channel(size, epsilon) @ total / (channel(size, epsilon) @ mass)
        losses = [
            (channel(size, epsilon)[bins] * (answers - truth[:, None]) ** 2).sum(axis=1).mean()
            for bins, truth in ((design, y), (test, y_test))
        ]
        found.append(losses)
    return min(found)[1]


def prediction_laplace(predicted, y, predicted_test, y_test, epsilon, tails=(0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)):
    """The mean squared error of the best affine answer to the clipped prediction plus Laplace noise."""
    found = []
    for tail in tails:
        low, high = np.quantile(predicted, [tail, 1 - tail])
        inside, variance = np.clip(predicted, low, high), 2 * ((high - low) / epsilon) ** 2
        slope = np.cov(inside, y, bias=True)[0, 1] / (inside.var() + variance)
        losses = [
            ((y.mean() + slope * (np.clip(p, low, high) - inside.mean()) - truth) ** 2).mean() + slope**2 * variance
            for p, truth in ((predicted, y), (predicted_test, y_test))
        ]
        found.append(losses)
    return min(found)[1]


def attribute_laplace(model, X, X_test, epsilon, draws, rng):
    """What the model says of records with Laplace noise on every attribute, brought back into the range; (draws, N)."""
    low, high = X.min(axis=0), X.max(axis=0)
    scale = (high - low) * X.shape[1] / epsilon
    noisy = np.clip(X_test, low, high) + rng.laplace(size=(draws, *X_test.shape)) * scale
    return np.stack([model(np.clip(one, low, high)) for one in noisy])
