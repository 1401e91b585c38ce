/** Who answered, where that was not the provider that was asked. */
export function listFallbacks(requested: string, answeredBy: readonly string[]): [string, string][] {
  const others = answeredBy.filter((id) => id !== requested)
  if (others.length === 0) return []
  const both = answeredBy.length > others.length ? `${requested} and ` : ''
  return [['answered', `by ${both}${others.join(' and ')}`]]
}
