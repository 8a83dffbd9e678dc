"""The bodies and answers of the API; `/openapi.json` is made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from treetop.serve.settings import DEEPEST, TEXTS

LONGEST_ID = 2000
Text = Annotated[str, Field(description="A text, in UTF-8.")]
K = Annotated[int, Field(ge=1, le=DEEPEST, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Which = Annotated[str | None, Field(max_length=LONGEST_ID, description="Id of a model; default: the first.")]


class Body(BaseModel):
    """A request; unknown fields are refused, so that a typing error is noticed."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Answer(BaseModel):
    """An answer: which model gave it, in which version."""

    model: str
    version: str


class PredictBody(Body):
    """Texts to label."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    k: K = 5
    threshold: Annotated[Share | None, Field(description="Lowest probability of a label.")] = None
    precision: Annotated[
        float | None,
        Field(gt=0, le=1, strict=True, description="Only labels above the threshold that reached this precision."),
    ] = None
    model: Which = None


class Suggestion(BaseModel):
    """One label of a text."""

    id: str
    name: str
    score: float
    probability: float | None


class Suggestions(BaseModel):
    """The labels of one text, best first."""

    labels: list[Suggestion]
    unknown: Annotated[bool, Field(description="The model knows nothing of this text.")]
    known_words: Annotated[float | None, Field(description="Share of the words the model knows.")]


class PredictAnswer(Answer):
    """The labels of each text, in the order of the texts."""

    results: list[Suggestions]


class ExplainBody(Body):
    """A text, and which of its labels to explain."""

    text: Text
    k: Annotated[int, Field(ge=1, le=20, strict=True)] = 3
    labels: Annotated[list[str] | None, Field(min_length=1, max_length=20, description="Ids, instead of k.")] = None
    model: Which = None


class ExplainAnswer(Answer):
    """Explanations as docs/explain.md describes them; labels the model did not rank for the text are absent."""

    explanations: list[dict[str, Any]]


class ModelFacts(BaseModel):
    """What is served under one id."""

    id: str
    recipe: str
    version: str
    labels: int
    documents: int
    calibrated: bool
    loaded_at: str
    has_report: bool
    has_texts: bool
    has_tree: bool
    accepts_feedback: bool


class Models(Answer):
    """All models of this server; the first is the default."""

    models: list[ModelFacts]


class Threshold(BaseModel):
    """The threshold that reached a precision on held-out documents; null: none did."""

    precision: float
    threshold: float | None
    accepted: Annotated[float | None, Field(description="Mean recall of the labels at or above it.")]


class Thresholds(BaseModel):
    """What thresholds did on held-out documents."""

    thresholds: list[Threshold]


class ModelAnswer(ModelFacts, Answer):
    """Everything about one model."""

    card: Annotated[str, Field(description="The model card, Markdown.")]
    settings: dict[str, Any]
    metrics: dict[str, Any]
    calibration: Thresholds | None
    previous: Annotated[str | None, Field(description="The version a rollback would return to.")]


class LabelFacts(BaseModel):
    """A label."""

    id: str
    name: str
    text: str
    count: Annotated[int, Field(description="Training texts that carry it.")]
    status: Literal["active", "retired"]


class Labels(Answer):
    """A page of labels and the number of all that were found."""

    labels: list[LabelFacts]
    total: int


class NodeName(BaseModel):
    """A node of the label tree by its most frequent labels."""

    node: str
    name: str


class Similar(BaseModel):
    """A label with a similar vector."""

    id: str
    name: str
    similarity: float


class LabelName(BaseModel):
    """A label by id and name."""

    id: str
    name: str


class LabelAnswer(LabelFacts, Answer):
    """One label, its place in the tree, labels like it, and what the vocabulary says of it."""

    path: list[NodeName]
    similar: list[Similar]
    alt: list[str]
    broader: list[LabelName]
    related: list[LabelName]


class TreeNode(BaseModel):
    """A node: its name is made of its most frequent labels."""

    id: str
    name: str
    labels: int


class TreeChild(TreeNode):
    """A node below another; a leaf is a label."""

    leaf: bool
    label: str | None = None


class Tree(Answer):
    """A node and a page of its children."""

    node: TreeNode
    children: list[TreeChild]
    total: int


class FeedbackBody(Body):
    """What a person says of a text: a verdict on one label, or the whole set of right labels."""

    text: Text
    label: Annotated[str | None, Field(min_length=1, max_length=LONGEST_ID)] = None
    verdict: Literal["accept", "reject", "add"] | None = None
    labels: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]] | None, Field(max_length=DEEPEST)
    ] = None
    model: Which = None


class FeedbackAnswer(Answer):
    """The feedback is on the disk."""

    id: int


class FeedbackStats(Answer):
    """How much feedback there is."""

    texts: int
    accept: int
    reject: int
    add: int
    sets: int


class Reloaded(Answer):
    """Which version answers now, and which was there before."""

    previous: str | None
    changed: bool


class ProblemAnswer(BaseModel):
    """RFC 9457 problem document."""

    type: str
    title: str
    status: int
    detail: str
