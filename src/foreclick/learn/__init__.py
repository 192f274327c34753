"""What is learnt from a log as a whole: examination, strengths of ladders, whose records vary."""
