"""Published methods and simple rules that GeoAlign is held against."""
