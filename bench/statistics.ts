/** Linear interpolation between the order statistics. */
export function quantile(samples: readonly number[], fraction: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const position = (sorted.length - 1) * fraction;
  const below = sorted[Math.floor(position)] as number;
  const above = sorted[Math.ceil(position)] as number;
  return below + (above - below) * (position % 1);
}

export const median = (samples: readonly number[]): number => quantile(samples, 0.5);

/** How far apart samples lie, as a share of their median. */
export function disagreement(samples: readonly number[]): number {
  return (Math.max(...samples) - Math.min(...samples)) / median(samples);
}
