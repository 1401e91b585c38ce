/** Returns the row that names the providers that answered, if that was not only the requested provider. */
export function listFallbacks(requested: string, answeredBy: readonly string[]): [string, string][] {
  const others = answeredBy.filter((id) => id !== requested)
  if (others.length === 0) return []
  const both = answeredBy.length > others.length ? `${requested} and ` : ''
  return [['answered', `by ${both}${others.join(' and ')}`]]
}
