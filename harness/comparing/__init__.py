"""Two runs side by side: did a change help?"""

from harness.comparing.comparison import Comparison as Comparison
from harness.comparing.comparison import compare as compare
