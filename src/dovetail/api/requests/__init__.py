"""What can be asked: every call of `dovetail`, typed once, and the request, options and form that follow from it."""
